"""What stands for an object whose calls a test wants to see, in order, and whose answers it sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Script:
    """Notes each call in `calls` as (`prefix` and the name, what was given). Answers what a test has set for the name:
    a function's result, the next of a list, or the thing itself; None where nothing was set. `holds`: attributes that
    are no methods."""

    def __init__(self, calls: list[Any], prefix: str = "", holds: Mapping[str, Any] | None = None, **answers: Any):
        self._calls, self._prefix, self._answers = calls, prefix, answers
        self.__dict__.update(holds or {})

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            self._calls.append((self._prefix + name, *given, *named.items()))
            answer = self._answers.get(name)
            if callable(answer):
                return answer(*given)
            return answer.pop(0) if isinstance(answer, list) else answer

        return call

"""A read-only record of settings with attributes named after them. Pure."""

from typing import Any, NoReturn


class FrozenSettings:
    """Values as attributes (`log_segment_bytes` for `log.segment.bytes`), set once at construction.

    The values live in the instance's own dict, so reading one costs no more than any attribute.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen; {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen; {name} cannot be removed")

    def __getattr__(self, name: str) -> Any:
        # Reached only when the dict has no such name; declares to type checkers that attributes come from the table.
        raise AttributeError(f"{type(self).__name__} has no setting {name}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in sorted(self.__dict__.items()))})"

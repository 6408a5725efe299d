"""Topics that come into being because somebody asked for them (auto.create.topics.enable). Request handlers.

The command is sent and forgotten: the request that caused it is answered at once, as Kafka does, and the client asks
again. Names already under way in this process are not sent a second time; the controller refuses the rest.
"""

from __future__ import annotations

from mpbroker.metadata.commands import CreateTopics, NewTopic

_under_way: set[str] = set()
MOST_UNDER_WAY = 1000  # names; beyond it the client's next try sends the command


def create_missing_topics(context, request, names: list[str]) -> None:
    """Asks the controller for topics with the broker's default partitions and replication factor."""
    wanted = [name for name in names if name not in _under_way][: MOST_UNDER_WAY - len(_under_way)]
    if not wanted:
        return
    command = CreateTopics(topics=[NewTopic(name=name) for name in wanted])
    _under_way.update(wanted)
    sent = context.commands.send(command, 0, lambda answer: _under_way.difference_update(wanted))
    if sent is None:
        _under_way.difference_update(wanted)
        context.count("controller_commands_refused")

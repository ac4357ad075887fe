"""A Grid in this process: ClientApps answer at once, and every message is written to bytes and read back both ways.

The bytes are those that a SuperLink would carry. It stands in for SuperLink and SuperNodes where processes would only
cost time: in tests, and in `exhume audit --engine flower`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

__all__ = ["LocalGrid", "carried"]

_RAISED = 2
"""Flower's code of an exception in a ClientApp."""

_SERVER = 1
_RUN = 1


def carried(message: Message) -> tuple[Message, int]:
    """Write a message to bytes and read it back; returns it with the number of bytes."""
    with no_object_id_recompute():
        contents = {name: item.deflate() for name, item in get_all_nested_objects(message).items()}
        name = message.object_id
    size = sum(map(len, contents.values()))
    arrived = cast(Message, inflate_object_from_contents(name, contents))
    arrived.metadata.__dict__["_message_id"] = name
    return arrived, size


class LocalGrid(Grid):  # type: ignore[misc]
    """Nodes in this process, each a ClientApp with a context of its own.

    Parameters
    ----------
    nodes
        The ClientApp of each node, by node id.
    configs
        What each node is configured with, if anything.
    """

    def __init__(self, nodes: Mapping[int, ClientApp], configs: Mapping[int, Mapping[str, Any]] | None = None) -> None:
        for name, value in (("_run_id", _RUN), ("_node_id", _SERVER), ("_task_id", 1)):
            if getattr(TaskIdentity, name) is None:
                setattr(TaskIdentity, name, value)
        self._nodes = dict(nodes)
        told = configs or {}
        self._contexts = {node: Context(_RUN, node, dict(told.get(node, {})), RecordDict(), {}) for node in self._nodes}
        self._waiting: dict[str, list[Message]] = {}
        self.sent: dict[int, int] = dict.fromkeys(self._nodes, 0)
        self.received: dict[int, int] = dict.fromkeys(self._nodes, 0)
        """Bytes to and from each node so far."""

    def set_run(self, run: Any) -> None:
        """Take any run: there is one."""

    @property
    def run(self) -> Any:
        """There is one run, and nothing to tell of it."""
        return None

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Make a message."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes."""
        return list(self._nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Hand each message to its node, which answers at once."""
        return [self._push(message) for message in messages]

    def _push(self, message: Message) -> str:
        node = message.metadata.dst_node_id
        arrived, size = carried(message)
        name = arrived.metadata.message_id
        self.sent[node] += size
        self._waiting[name] = list(self._answers(node, arrived))
        return str(name)

    def _answers(self, node: int, message: Message) -> Iterator[Message]:
        """Yield what comes back for a message: one answer."""
        app: Callable[[Message, Context], Message] = self._nodes[node]
        try:
            answer = app(message, self._contexts[node])
        except Exception as error:  # as a SuperNode does
            answer = Message(Error(_RAISED, f"{type(error).__name__}: {error}"), reply_to=message)
        arrived, size = carried(answer)
        self.received[node] += size
        yield arrived

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the answers to these messages, each once."""
        return [answer for name in message_ids for answer in self._waiting.pop(name, ())]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Push, then pull."""
        return self.pull_messages(self.push_messages(messages))

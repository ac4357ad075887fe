"""A node: it adds its rows round by round, has some deleted when asked, and evaluates every head.

With a ``mailbox`` in its node configuration it is a malicious one, which sends what an attacker leaves there.
"""

from flwr.app import Context

from exhume.flower.client import Holder, Party, client_app
from exhume.flower.target import Mailbox, Mole
from exhume_flower.task import Task


def party(context: Context) -> Party:
    """Return who is behind this node."""
    if "mailbox" in context.node_config:
        return Mole(Mailbox(str(context.node_config["mailbox"])))
    task, number = Task.of(context), int(context.node_config["partition-id"])
    found, rows = task.features(), task.partition(number)
    test = found.test_features, found.test_labels
    own = found.train_features[rows], found.train_labels[rows]
    return Holder(*own, found.classes, lambda round_: task.wanted(number, round_), test=test)


app = client_app(party)

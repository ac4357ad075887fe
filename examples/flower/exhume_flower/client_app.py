"""A node: it adds its rows round by round, has some deleted when asked, and evaluates every head."""

from flwr.app import Context

from exhume.flower.client import Holder, client_app
from exhume.flower.server import setting
from exhume_flower.task import loaded, partition, wanted


def holder(context: Context) -> Holder:
    """Return the party behind this node."""
    found = loaded(context)
    partitions, rounds, unlearn, seed = (
        setting(context, name, default)
        for name, default in (("partitions", 4), ("rounds", 4), ("unlearn-round", 4), ("seed", 0))
    )
    rows = partition(found, int(context.node_config["partition-id"]), partitions, seed)
    return Holder(
        found.train_features[rows],
        found.train_labels[rows],
        found.classes,
        lambda number: wanted(number, rounds, unlearn),
        test=(found.test_features, found.test_labels),
    )


app = client_app(holder)

"""The server: a ledger that outlives the run, and one broadcast a round."""

from flwr.app import Context

from exhume.defence.config import Config, load
from exhume.flower.durable import StoreBook, operator_key
from exhume.flower.rounds import Clock
from exhume.flower.server import Setup, server_app, setting
from exhume.store import ServerSetup
from exhume_flower.task import Task


def setup(context: Context) -> Setup:
    """Return what the run's configuration asks for. A run that finds its store goes on from there."""
    task = Task.of(context)
    found = task.features()
    gamma, grid = setting(context, "gamma", 1e-3), setting(context, "grid", 0.0)
    rules = setting(context, "defence", "")
    defence = load(rules) if rules else Config()
    # Nodes remember nothing: what they sent follows from the task, which must not change while the store is used.
    server = ServerSetup(found.dim, found.classes, gamma, grid or None, defence, app=vars(task))
    return Setup(
        StoreBook.open(setting(context, "store", ""), server, operator_key(setting(context, "key", ""))),
        rounds=setting(context, "rounds", 4),
        nodes=setting(context, "nodes", 4),
        unlearn=frozenset({task.unlearn_round} if task.unlearn_round else ()),
        clock=Clock(setting(context, "timeout", 60.0)),
    )


app = server_app(setup)

"""The server: a ledger that outlives the run, and one broadcast a round."""

from flwr.app import Context

import exhume as ex
from exhume.flower.book import MemoryBook
from exhume.flower.rounds import Clock
from exhume.flower.server import Setup, server_app, setting
from exhume_flower.task import loaded


def setup(context: Context) -> Setup:
    """Return what the run's configuration asks for."""
    found = loaded(context)
    gamma, grid = setting(context, "gamma", 1e-3), setting(context, "grid", 0.0)
    server = ex.Server(ex.Ledger.zeros(found.dim, found.classes, gamma, grid or None))
    unlearn = setting(context, "unlearn-round", 0)
    return Setup(
        MemoryBook(server),
        rounds=setting(context, "rounds", 4),
        nodes=setting(context, "nodes", 4),
        unlearn=frozenset({unlearn} if unlearn else ()),
        clock=Clock(setting(context, "timeout", 60.0)),
    )


app = server_app(setup)

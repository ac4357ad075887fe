"""A small configuration and messages for it."""

from exhume.defence import Bounds, Config, Entry, hardened_config
from exhume.protocol.message import itemise
from exhume.store import ServerSetup

D, C = 12, 3


def rows(rng, n=2):
    return rng.standard_normal((n, D)), rng.integers(0, C, n)


def hardened(founding=0):
    bounds = Bounds(longest=20.0, message_rows=50, client_rows=500)
    return hardened_config(D, bounds=bounds, rows=100, horizon=20, founding=founding, grows=not founding)


EVERYTHING = Config(
    admission=(
        Entry.of("bounded-influence", longest=20.0, message_rows=50, client_rows=500),
        Entry.of("ownership", show_rows=True),
        Entry.of("replay", tolerance=0.05),
        Entry.of("duplicates"),
    ),
    release=(
        Entry.of("minimum-interval", seconds=0.001),
        Entry.of("continual-noise", sigma=0.2, horizon=20, grows=True),
    ),
    accountant=Entry.of("identification", margin=2),
)

DEFENCES = {"bare": Config(), "hardened": hardened(), "everything": EVERYTHING}


SETUP = ServerSetup(D, C, 1e-3, defence=hardened())


def add(features, labels):
    return itemise(C, add=(features, labels))


def delete(features, labels):
    return itemise(C, delete=(features, labels))

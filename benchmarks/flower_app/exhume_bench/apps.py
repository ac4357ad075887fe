"""The apps of a deployment. The run's configuration says whether nodes send their grams written out."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from exhume.flower.client import Holder, client_app
from exhume.flower.durable import StoreBook, operator_key
from exhume.flower.rounds import Clock
from exhume.flower.server import Setup, server_app, setting
from exhume.store import ServerSetup
from exhume_bench import CLASSES, GAMMA, rows_of, wanted


def party(context: Context) -> Holder:
    """Return who is behind a node."""
    d, rows, rounds = (setting(context, name, 1) for name in ("dim", "rows", "rounds"))
    features, labels = rows_of(int(context.node_config["partition-id"]), d, rows, rounds)
    return Holder(features, labels, CLASSES, lambda number: wanted(number, rows), test=(features[:100], labels[:100]))


lean, wide = client_app(party), client_app(party, dense=True)
client = ClientApp()


def answered(message: Message, context: Context) -> Message:
    """Answer in the form that the run asks for."""
    return (wide if setting(context, "dense", False) else lean)(message, context)


client.train()(answered)
client.evaluate()(answered)


def setup(context: Context) -> Setup:
    """Return the rounds to play, on a durable store."""
    server = ServerSetup(setting(context, "dim", 1), CLASSES, GAMMA)
    book = StoreBook.open(setting(context, "store", ""), server, operator_key(setting(context, "key", "")))
    clock = Clock(setting(context, "timeout", 300.0))
    return Setup(book, setting(context, "rounds", 4), setting(context, "nodes", 4), clock=clock)


server = server_app(setup)

"""The honest parties: summaries and updates, the ledger, the server, clients, and the wire between them."""

from exhume.protocol.client import Client
from exhume.protocol.grid import snap
from exhume.protocol.head import Head, round_to, unit_roundoff
from exhume.protocol.ledger import Ledger
from exhume.protocol.message import Batch, Message, count, itemise
from exhume.protocol.rules import Accountant, AdmissionRule, Counts, Exposure, Heads, Occasion, ReleaseRule
from exhume.protocol.server import Receipt, Server
from exhume.protocol.summary import Summary, Update
from exhume.protocol.target import Target

__all__ = [
    "Accountant",
    "AdmissionRule",
    "Batch",
    "Client",
    "Counts",
    "Exposure",
    "Head",
    "Heads",
    "Ledger",
    "Message",
    "Occasion",
    "Receipt",
    "ReleaseRule",
    "Server",
    "Summary",
    "Target",
    "Update",
    "count",
    "itemise",
    "round_to",
    "snap",
    "unit_roundoff",
]

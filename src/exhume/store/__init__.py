"""The durable server: a ledger and its defences in a database, which remembers every answer and forgets what it must.

    with store.open("federation.db", store.ServerSetup(d=512, c=10, gamma=1e-3, defence=config), key) as server:
        receipt = server.submit(update, client="alice", key="message-1")

`exhume.service` and `exhume.flower` stand on it.
"""

from typing import Any

from exhume.store.durable import Answer, DurableServer, Published
from exhume.store.forget import Forgetting
from exhume.store.journal import Sent
from exhume.store.keys import OperatorKey
from exhume.store.receipts import Checked, StoredReceipt, as_key, check_statement
from exhume.store.setup import ServerSetup

__all__ = [
    "Answer",
    "Checked",
    "DurableServer",
    "Forgetting",
    "OperatorKey",
    "Published",
    "Sent",
    "ServerSetup",
    "StoredReceipt",
    "as_key",
    "check_statement",
    "open",
]


def open(url: str, setup: ServerSetup, key: OperatorKey, **options: Any) -> DurableServer:
    """Return the durable server of a store, made if it is not there; the options are those of `DurableServer`."""
    return DurableServer(url, setup, key, **options)

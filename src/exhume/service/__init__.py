"""The protocol over HTTP on a durable ledger (extra ``serve``): `exhume serve`.

One writer applies messages in order; readers never wait for it. Clients and the operator have an address each.
"""

from exhume.errors import MissingExtraError

try:
    import fastapi
    import prometheus_client
    import uvicorn
except ImportError as error:  # pragma: no cover - the extra is installed where this is tested
    raise MissingExtraError("exhume serve", "serve") from error

from exhume.service.app import client_app
from exhume.service.auth import Tokens
from exhume.service.config import Address, ServiceConfig, load, template
from exhume.service.core import FederationService, Limits
from exhume.service.operator import operator_app
from exhume.service.remote import Remote, read_token
from exhume.service.rounds import Gathering
from exhume.service.running import serve

__all__ = [
    "Address",
    "FederationService",
    "Gathering",
    "Limits",
    "Remote",
    "ServiceConfig",
    "Tokens",
    "client_app",
    "load",
    "operator_app",
    "read_token",
    "serve",
    "template",
]

del fastapi, prometheus_client, uvicorn

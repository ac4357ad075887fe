"""What a server keeps account of: one accountant per file, found by name.

Adding one is adding a module here that defines the tuple `ACCOUNTANTS`, or an entry point of the group
``exhume.accountants`` to another package.
"""

from typing import Any

from exhume.defence.accountants._exposure import Identification
from exhume.defence.accountants.identification import ACTIONS, IdentificationAccountant
from exhume.protocol.rules import Accountant
from exhume.registry import Registry

__all__ = ["ACTIONS", "REGISTRY", "Identification", "IdentificationAccountant"]

_KIND: Any = Accountant  # the entries are its subclasses, not its instances

REGISTRY: Registry[type[Accountant]] = Registry("accountant", __name__, "ACCOUNTANTS", "exhume.accountants", _KIND)
"""Every known accountant, by name."""

"""What a server refuses: one rule per file, found by name.

A server asks its rules in order and the first to object refuses the message. Adding a rule is adding a module here that
defines the tuple `RULES`, or an entry point of the group ``exhume.admission`` to another package.
"""

from typing import Any

from exhume.defence.admission._trail import FEATURES, Log, Trail, Watch
from exhume.defence.admission.algebraic_ownership import AlgebraicOwnership
from exhume.defence.admission.bounded_influence import BoundedInfluence
from exhume.defence.admission.detector import Detector
from exhume.defence.admission.duplicates import Duplicates
from exhume.defence.admission.minimum_rows import MinimumRows
from exhume.defence.admission.norm_limit import NormLimit
from exhume.defence.admission.ownership import Ownership
from exhume.defence.admission.positive_semidefinite import PositiveSemidefinite
from exhume.defence.admission.replay import Replay
from exhume.defence.admission.signed_messages import SignedMessages, SignedTarget, Signer, sign
from exhume.defence.admission.whole_messages import WholeMessages
from exhume.protocol import AdmissionRule
from exhume.registry import Registry

__all__ = [
    "FEATURES",
    "REGISTRY",
    "AlgebraicOwnership",
    "BoundedInfluence",
    "Detector",
    "Duplicates",
    "Log",
    "MinimumRows",
    "NormLimit",
    "Ownership",
    "PositiveSemidefinite",
    "Replay",
    "SignedMessages",
    "SignedTarget",
    "Signer",
    "Trail",
    "Watch",
    "WholeMessages",
    "sign",
]

_KIND: Any = AdmissionRule  # the entries are its subclasses, not its instances

REGISTRY: Registry[type[AdmissionRule]] = Registry("admission rule", __name__, "RULES", "exhume.admission", _KIND)
"""Every known rule, by name."""

"""What a server lets out: one rule per file, found by name, composed by `Chain`.

Adding a rule is adding a module here that defines the tuple `RULES`, or an entry point of the group ``exhume.release``
to another package.
"""

from typing import Any

from exhume.defence.release._base import STAGES, Rule
from exhume.defence.release._evaluator import (
    DeletionAccount,
    EventTally,
    KeepsAccounts,
    KeepsTallies,
    Masking,
    accounts_of,
    mask_of,
    rules_of,
)
from exhume.defence.release._factorisation import Factorisation
from exhume.defence.release._told import Told, noise_of_history
from exhume.defence.release.chain import Chain
from exhume.defence.release.columns import Columns
from exhume.defence.release.continual import ContinualNoise, EventAccount
from exhume.defence.release.deletion_mask import DeletionMask
from exhume.defence.release.every_k_changes import EveryKChanges
from exhume.defence.release.low_rank import LowRank
from exhume.defence.release.min_clients import MinClients
from exhume.defence.release.minimum_interval import MinimumInterval
from exhume.defence.release.noise import IsotropicNoise, PosteriorNoise
from exhume.defence.release.privacy_budget import PrivacyBudget
from exhume.defence.release.response_budget import ResponseBudget
from exhume.defence.release.top_eigenspace import TopEigenspace
from exhume.protocol.rules import Heads, ReleaseRule
from exhume.registry import Registry

__all__ = [
    "REGISTRY",
    "STAGES",
    "Chain",
    "Columns",
    "ContinualNoise",
    "DeletionAccount",
    "DeletionMask",
    "EventAccount",
    "EventTally",
    "EveryKChanges",
    "Factorisation",
    "Heads",
    "IsotropicNoise",
    "KeepsAccounts",
    "KeepsTallies",
    "LowRank",
    "Masking",
    "MinClients",
    "MinimumInterval",
    "PosteriorNoise",
    "PrivacyBudget",
    "ResponseBudget",
    "Rule",
    "Told",
    "TopEigenspace",
    "accounts_of",
    "mask_of",
    "noise_of_history",
    "rules_of",
]

_KIND: Any = ReleaseRule  # the entries are its subclasses, not its instances

REGISTRY: Registry[type[ReleaseRule]] = Registry("release rule", __name__, "RULES", "exhume.release", _KIND)
"""Every known rule, by name."""

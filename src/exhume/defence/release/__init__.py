"""What a server lets out: one rule per file, found by name, composed by `Chain`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from exhume.defence.release._base import STAGES, Rule
from exhume.defence.release.chain import Chain
from exhume.defence.release.columns import Columns
from exhume.defence.release.deletion_mask import DeletionMask
from exhume.defence.release.every import Every
from exhume.defence.release.low_rank import LowRank
from exhume.defence.release.min_clients import MinClients
from exhume.defence.release.noise import IsotropicNoise, PosteriorNoise
from exhume.defence.release.privacy_budget import PrivacyBudget
from exhume.defence.release.response_budget import ResponseBudget
from exhume.defence.release.top_eigenspace import TopEigenspace
from exhume.defence.release.window import Window
from exhume.errors import InputError, unknown_name
from exhume.protocol.rules import Heads, ReleaseRule

__all__ = [
    "REGISTRY",
    "STAGES",
    "Chain",
    "Columns",
    "DeletionMask",
    "Every",
    "Heads",
    "IsotropicNoise",
    "LowRank",
    "MinClients",
    "PosteriorNoise",
    "PrivacyBudget",
    "ResponseBudget",
    "Rule",
    "TopEigenspace",
    "Window",
    "build",
    "find",
    "register",
]

REGISTRY: dict[str, Callable[..., ReleaseRule]] = {"heads": Heads}


def register(name: str, rule: Callable[..., ReleaseRule]) -> None:
    """Add a rule under a name that is not taken."""
    if name in REGISTRY:
        raise InputError("name", "one that no release rule has", f"'{name}'")
    REGISTRY[name] = rule


for _rule in (
    Columns,
    DeletionMask,
    Every,
    IsotropicNoise,
    LowRank,
    MinClients,
    PosteriorNoise,
    PrivacyBudget,
    ResponseBudget,
    TopEigenspace,
    Window,
):
    register(_rule.name, _rule)


def find(name: str) -> Callable[..., ReleaseRule]:
    """Return a rule by its name; other packages add theirs through the entry-point group ``exhume.release``."""
    if name in REGISTRY:
        return REGISTRY[name]
    points = {point.name: point for point in entry_points(group="exhume.release")}
    if name not in points:
        raise unknown_name("release rule", name, [*REGISTRY, *points])
    found: Callable[..., ReleaseRule] = points[name].load()
    return found


def build(name: str, **options: Any) -> ReleaseRule:
    """Make a rule by its name."""
    made = find(name)(**options)
    if not isinstance(made, ReleaseRule):
        raise InputError("release rule", f"a ReleaseRule under the name '{name}'", type(made).__name__)
    return made

"""What a server refuses: one rule per file, found by name.

A server asks its rules in order and the first to object refuses the message. `REGISTRY` names the rules here;
other packages add theirs through the entry-point group ``exhume.admission``.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from exhume.defence.admission.detector import Detector
from exhume.defence.admission.duplicates import Duplicates
from exhume.defence.admission.message import Batch, Message, count, itemise, message
from exhume.defence.admission.minimum_rows import MinimumRows
from exhume.defence.admission.norm import Norm
from exhume.defence.admission.origin import Origin, SignedTarget, Signer, sign
from exhume.defence.admission.ownership import Ownership
from exhume.defence.admission.positive import Positive
from exhume.defence.admission.replay import Replay
from exhume.defence.admission.slack import Slack
from exhume.errors import InputError, unknown_name
from exhume.protocol import AdmissionRule

__all__ = [
    "REGISTRY",
    "Batch",
    "Detector",
    "Duplicates",
    "Message",
    "MinimumRows",
    "Norm",
    "Origin",
    "Ownership",
    "Positive",
    "Replay",
    "SignedTarget",
    "Signer",
    "Slack",
    "build",
    "count",
    "itemise",
    "message",
    "sign",
]

REGISTRY: dict[str, type[AdmissionRule]] = {
    "detector": Detector,
    "duplicates": Duplicates,
    "minimum_rows": MinimumRows,
    "norm": Norm,
    "origin": Origin,
    "ownership": Ownership,
    "positive": Positive,
    "replay": Replay,
    "slack": Slack,
}


def build(name: str, **options: Any) -> AdmissionRule:
    """Make a rule by its registered name."""
    points = {point.name: point for point in entry_points(group="exhume.admission")}
    taken = sorted(set(points) & set(REGISTRY))
    if taken:
        raise InputError("exhume.admission", "entry points with names of their own", ", ".join(taken))
    if name in REGISTRY:
        return REGISTRY[name](**options)
    if name not in points:
        raise unknown_name("admission rule", name, [*REGISTRY, *points])
    made = points[name].load()(**options)
    if not isinstance(made, AdmissionRule):
        raise InputError("admission rule", f"an AdmissionRule from the entry point '{name}'", type(made).__name__)
    return made

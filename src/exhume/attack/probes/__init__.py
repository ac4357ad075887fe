"""Probes by name: sequences of known changes that a malicious client can submit.

Adding one is adding a module here that defines the tuple `PROBES`; other packages add theirs through the entry-point
group ``exhume.probes``.
"""

from __future__ import annotations

from exhume.attack.probes.ballast import ballast, weight_for
from exhume.attack.probes.base import (
    MomentProbe,
    Probe,
    ProbeEntry,
    Resources,
    Step,
    ballast_of,
    moment_pairs,
    moment_update,
    taking_back,
)
from exhume.attack.probes.conditioned import conditioned
from exhume.attack.probes.designed import designed
from exhume.attack.probes.label_swap import label_swap
from exhume.attack.probes.own_data import own_data
from exhume.attack.probes.random import random
from exhume.registry import Registry

__all__ = [
    "REGISTRY",
    "MomentProbe",
    "Probe",
    "ProbeEntry",
    "Resources",
    "Step",
    "ballast",
    "ballast_of",
    "build",
    "conditioned",
    "designed",
    "label_swap",
    "moment_pairs",
    "moment_update",
    "own_data",
    "random",
    "taking_back",
    "weight_for",
]

REGISTRY = Registry("probe", __name__, "PROBES", "exhume.probes", ProbeEntry)
"""Every known probe, by name."""


def build(name: str, resources: Resources) -> Probe:
    """Make a probe by its registered name of what the attacker has."""
    return REGISTRY.find(name).build(resources)

"""Plans of known changes that a malicious client can submit, by name.

A probe is one small file here. `PROBES` is the registry; other packages add theirs through the entry-point group
``exhume.probes``.
"""

from __future__ import annotations

from exhume.attack.probes.base import MomentProbe, Probe, Step, moment_update
from exhume.attack.probes.designed import designed
from exhume.attack.probes.label_swap import label_swap
from exhume.attack.probes.own_data import own_data
from exhume.attack.probes.random import random
from exhume.attack.probes.registry import PROBES, build

__all__ = [
    "PROBES",
    "MomentProbe",
    "Probe",
    "Step",
    "build",
    "designed",
    "label_swap",
    "moment_update",
    "own_data",
    "random",
]

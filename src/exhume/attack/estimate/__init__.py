"""Estimators by name: from the transcript of a probe run to the state that it met.

All have one shape, ``estimate.x(transcript, *, ...) -> State``. Adding one is adding a module here that defines the
tuple `ESTIMATORS`; other packages add theirs through the entry-point group ``exhume.estimators``.
"""

from __future__ import annotations

from exhume.attack.estimate.base import Estimator, gram_guess, restored
from exhume.attack.estimate.direct import direct
from exhume.attack.estimate.partial import partial
from exhume.attack.estimate.read_off import read_off
from exhume.attack.estimate.ridges import ridges
from exhume.attack.estimate.symmetric import symmetric
from exhume.registry import Registry

__all__ = ["REGISTRY", "Estimator", "direct", "gram_guess", "partial", "read_off", "restored", "ridges", "symmetric"]

REGISTRY = Registry("estimator", __name__, "ESTIMATORS", "exhume.estimators", Estimator)
"""Every known estimator, by name."""

"""Features to pictures: decoders by name, their measures and the nulls that they must beat.

>>> import numpy as np
>>> from exhume.data import load_features
>>> from exhume.decode import build
>>> found = load_features("digits", "random-relu", dim=256, images=True)
>>> decoder = build("ridge").fit(found.train_features, found.images.train_images)
>>> decoder.decode(found.test_features[:3], generator=np.random.default_rng(0)).shape
(3, 8, 8)
"""

from __future__ import annotations

from exhume.decode._base import Decoder, DecoderEntry, Learnt, Pixels, TrainingRecord
from exhume.decode._torch import available
from exhume.decode.decoders import REGISTRY, build
from exhume.decode.store import load, save

__all__ = [
    "REGISTRY",
    "Decoder",
    "DecoderEntry",
    "Learnt",
    "Pixels",
    "TrainingRecord",
    "available",
    "build",
    "load",
    "save",
]

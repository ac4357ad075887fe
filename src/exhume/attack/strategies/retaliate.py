"""Retaliation: what was deleted is put back under wrong labels, so that the model fails on it (Sheng et al. 2026)."""

from __future__ import annotations

import numpy as np

from exhume.attack.block import Block
from exhume.attack.session import Attack
from exhume.errors import InputError
from exhume.protocol.head import Head
from exhume.protocol.summary import Summary, Update

__all__ = ["retaliate"]


def retaliate(attack: Attack, block: Block, *, times: float = 1.0) -> Head:
    """Add a recovered block with every label moved to the next class, and return the head that this brings about.

    Parameters
    ----------
    attack
        The malicious client.
    block
        What was recovered of a deletion.
    times
        How many copies to add.
    """
    if not times > 0:
        raise InputError("times", "above 0", times)
    back = block.summary
    return attack.submit(Update.adding(Summary(times * back.gram, times * np.roll(back.moment, 1, axis=1))))

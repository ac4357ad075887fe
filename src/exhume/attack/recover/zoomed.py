"""One deleted record from two moments found by centring the head (`strategies.zoom`): the gram follows from the record.

The moments are sharp to the ledger's own precision, whatever the state; where the states are sharp too, `difference`
gives the gram as well.
"""

from __future__ import annotations

import numpy as np

from exhume.attack.block import Block
from exhume.attack.recover.base import Recovered, Recovery
from exhume.attack.recover.difference import read_block
from exhume.attack.state import State, alike

__all__ = ["RECOVERIES", "zoomed"]


def zoomed(before: State, after: State) -> Recovered:
    """Return the record that the difference of two zoomed moments names (maximum-column rule)."""
    before, after = alike(before, after)
    moment = before.G - after.G
    sample = Block(np.zeros_like(before.A), moment).as_sample()
    return read_block(Block(np.outer(sample.feature, sample.feature), moment), records=1)


RECOVERIES = (Recovery("zoomed", "one record from two moments found by centring the head", zoomed, "state"),)

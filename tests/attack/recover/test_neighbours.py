"""The paper's neighbours as baselines: deletion inference, the server that sees messages, retaliation."""

import numpy as np
import pytest

from exhume import Summary
from exhume.attack.block import Block
from exhume.attack.recover.inference import loss_rise
from exhume.attack.recover.membership import ranking
from exhume.attack.recover.message import read_message
from exhume.attack.strategies.retaliate import retaliate
from exhume.errors import InputError
from tests.attack.recover.test_low_rank import pick
from tests.attack.worlds import clustered, gap


def test_the_deleted_records_loss_rises_most():
    world = clustered()
    areas = []
    for row in world.others[:30]:
        rise = loss_rise(world.target.head(), world.head_after(row), world.features, world.labels)
        assert rise[row] > 0  # its residual grows by 1 / (1 - leverage), whatever the data
        areas.append(ranking(-rise[[row]], -np.delete(rise, row)))
    assert np.mean(areas) > 0.95
    with pytest.raises(InputError, match="features must be rows of 24 features"):
        loss_rise(world.target.head(), world.target.head(), np.ones((2, 3)), np.zeros(2, dtype=int))


@pytest.mark.parametrize("labels", [[3], [0, 1, 2], [1, 1], [1, 1, 3], [2, 2, 2]])
def test_a_message_of_few_rows_is_those_rows(labels):
    world = clustered(d=40)
    rows = pick(world, labels)
    counts, samples = read_message(world.block(rows), nonnegative=True)
    assert counts.tolist() == np.bincount(labels, minlength=4).tolist()
    if len(samples) < len(labels):
        assert labels == [2, 2, 2]  # three of a class may stay mixed, and are then not shown
        return
    for sample in samples:
        assert min(gap(sample.feature, world.features[r]) for r in rows if world.labels[r] == sample.label) < 1e-4


def test_an_empty_side_says_nothing():
    counts, samples = read_message(Summary.zeros(5, 3))
    assert counts.tolist() == [0, 0, 0] and samples == ()


def test_two_classes_with_several_rows_stay_mixed():
    world = clustered(d=40)
    counts, samples = read_message(world.block(pick(world, [0, 0, 1, 1])))
    assert counts.tolist() == [2, 2, 0, 0] and samples == ()


def test_retaliation_makes_the_head_fail_on_what_was_deleted():
    world = clustered()
    rows = world.others[world.labels[world.others] == 2]
    _, attack = world.after(rows)
    block = world.block(rows)
    head = retaliate(attack, Block(block.gram, block.moment))
    f, y = world.features[rows], world.labels[rows]
    assert head.accuracy(f, y) < 0.1 and head.accuracy(f, (y + 1) % 4) > 0.5
    with pytest.raises(InputError, match="times must be above 0"):
        retaliate(attack, Block(block.gram, block.moment), times=0)

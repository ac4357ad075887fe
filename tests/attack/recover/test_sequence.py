"""Deletions followed one after another."""

import numpy as np
import pytest

from exhume.attack import probes, recover
from exhume.attack.estimate import symmetric
from exhume.errors import InputError
from tests.attack.worlds import clustered, gap


def test_fifty_deletions_from_one_identification_without_a_probe():
    world = clustered(precision="float32")
    state = symmetric(world.attack.run(world.probe("own-data", responses=24)))
    spent = world.attack.cost
    rows = world.others[:50]
    heads = [world.head_after(rows[: i + 1]) for i in range(50)]
    found = recover.sequence(state, heads, nonnegative=True)
    followed = found.diagnostics.steps
    assert [f.found.label for f in followed] == world.labels[rows].tolist()
    assert world.attack.cost == spent
    left = world.A - world.block(rows).gram
    assert gap(followed[-1].state.A, left) < 1e-3
    assert gap(followed[-1].state.H, np.linalg.inv(left)) < 1e-2
    assert gap(found.block.gram, world.block(rows).gram) < 1e-2
    assert gap(followed[-1].state.G, world.server.ledger.summary.moment - world.block(rows).moment) < 1e-3
    assert (found.label, found.feature, found.known) == (None, None, True)


def test_one_head_is_a_sequence_of_one():
    world = clustered()
    head = world.head_after(world.others[0])
    one, alone = recover.sequence(world.state, head), recover.rank_one(world.state, head)
    assert (one.label, one.known) == (alone.label, alone.known)
    assert np.array_equal(one.feature, alone.feature) and np.array_equal(one.block.gram, alone.block.gram)
    with pytest.raises(InputError, match="after must be at least one head"):
        recover.sequence(world.state, [])


def test_reidentification_only_where_the_self_check_asks_for_it():
    world = clustered()
    pair, single = world.others[:2], world.others[2]
    assert world.labels[pair[0]] != world.labels[pair[1]]
    heads = [world.head_after(pair), world.head_after([*pair, single])]
    calls = []

    def again():
        calls.append(1)
        _, attack = world.after(pair)
        return attack.identify(probes.designed(24, 4))

    found = recover.sequence(world.state, heads, reidentify=again)
    first, second = found.diagnostics.steps
    assert second.found.known and not found.known
    assert first.reidentified and len(calls) == 1
    assert not second.reidentified
    assert second.found.label == world.labels[single]
    assert gap(second.found.feature, world.features[single]) < 1e-5


def test_both_halves_of_the_state_follow_an_exact_deletion():
    world, row = clustered(), 300
    left = recover.sequence(world.state, world.head_after(row)).diagnostics.steps[0].state
    A = world.A - world.block(row).gram
    assert gap(left.A, A) < 1e-9
    assert gap(left.H, np.linalg.inv(A)) < 1e-9
    assert gap(left.G, world.server.ledger.summary.moment - world.block(row).moment) < 1e-9

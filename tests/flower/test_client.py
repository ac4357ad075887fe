"""Nodes: a turn that is odd is refused, and an honest node's answer follows from the turn alone."""

from dataclasses import replace

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from exhume.errors import InputError, WireError
from exhume.flower.client import Holder, Turn
from exhume.flower.server import setting
from exhume.protocol.message import Message
from exhume.protocol.summary import Summary

pytestmark = pytest.mark.flower

D, C, ROWS = 5, 3, 12
FEATURES = np.random.default_rng(0).standard_normal((ROWS, D))
LABELS = np.random.default_rng(1).integers(0, C, ROWS)
TURN = Turn(4, D, C, 1e-3, None, False, frozenset(), ())
TOLD = {
    "version": 1, "kind": "turn", "round": 4, "d": D, "c": C, "gamma": 1e-3, "grid": 0.0, "unlearn": False,
    "asks": [], "taken": [], "unlearned": [],
}  # fmt: skip


def read(**more):
    return Turn.read(RecordDict({"exhume": ConfigRecord(TOLD | more)}))


def test_a_turn_is_read():
    assert read() == TURN
    turn = read(grid=0.25, unlearn=True, asks=["rows"], taken=[1, 3], unlearned=[False, True])
    assert turn == Turn(4, D, C, 1e-3, 0.25, True, frozenset({"rows"}), ((1, False), (3, True)))


@pytest.mark.parametrize(
    "told",
    [{"version": 9}, {"kind": "head"}, {"round": 0}, {"d": 0}, {"gamma": 0.0}, {"gamma": 1}, {"grid": -1.0},
     {"taken": [1]}, {"taken": 3}, {"asks": "rows"}],
    ids=str,
)  # fmt: skip
def test_an_odd_turn_is_refused(told):
    with pytest.raises(WireError):
        read(**told)


PLANS = st.lists(st.frozensets(st.integers(0, ROWS - 1)), min_size=1, max_size=8)


@given(PLANS, st.data())
def test_whatever_is_lost_the_ledger_holds_what_the_node_wanted_last(plans, data):
    """Any messages may be lost; after any that is taken, the ledger holds what the plan says for its round."""
    holder = Holder(FEATURES, LABELS, C, lambda number: sorted(plans[number - 1]))
    ledger, taken, held = Summary.zeros(D, C), [], frozenset()
    for number, wanted in enumerate(plans, start=1):
        unlearn = data.draw(st.booleans())
        update = holder.contribute(replace(TURN, number=number, unlearn=unlearn, taken=tuple(taken)))
        goal = held & wanted if unlearn else wanted
        assert (update is None) == (goal == held)
        if update is not None and data.draw(st.booleans()):
            ledger, held = ledger + update.net, goal
            taken.append((number, unlearn))
        rows = sorted(held)
        want = FEATURES[rows].T @ FEATURES[rows]
        # Entries are below 12 x 4^2; at most 8 sums, products and factors each err by a few units of 2^-53 of that.
        assert np.allclose(ledger.gram, want, rtol=0, atol=1e-11)


def test_rows_are_shown_where_they_are_asked_for():
    holder = Holder(FEATURES, LABELS, C, lambda number: range(4))
    shown = holder.contribute(replace(TURN, asks=frozenset({"rows"})))
    assert isinstance(shown, Message) and np.array_equal(shown.added.features, FEATURES[:4])
    assert not isinstance(holder.contribute(TURN), Message)


def test_rows_are_snapped_to_the_grid():
    made = Holder(FEATURES, LABELS, C, lambda number: range(4)).contribute(replace(TURN, grid=0.25))
    snapped = np.rint(FEATURES[:4] / 0.25) * 0.25
    assert np.array_equal(made.add.gram, snapped.T @ snapped)


def test_a_turn_of_another_size_is_refused():
    with pytest.raises(InputError, match="turn must be of d = 5, c = 3"):
        Holder(FEATURES, LABELS, C, lambda number: range(4)).contribute(replace(TURN, d=6))


def test_a_setting_has_its_defaults_type():
    context = Context(1, 1, {}, RecordDict(), {"rounds": 3, "gamma": 1, "store": "x", "grid": True})
    assert setting(context, "rounds", 1) == 3 and setting(context, "gamma", 0.5) == 1.0
    assert setting(context, "absent", 7) == 7
    for name, default in (("rounds", "x"), ("store", 1), ("grid", 0.0)):
        with pytest.raises(InputError, match=name):
            setting(context, name, default)

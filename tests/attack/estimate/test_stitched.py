"""State and changes fitted together, against exact rational heads."""

import numpy as np
import pytest

from exhume.attack.estimate import direct
from exhume.attack.estimate.stitched import stitched
from exhume.attack.watched import Watcher, blank, rounding, visible
from exhume.errors import AttackError
from exhume.protocol import Head, Summary
from tests.attack import exact as ex
from tests.attack.worlds import gap, released

D, C = 8, 3


def dyadic(rng, n):
    return rng.integers(-8, 9, (n, D)) / 4.0, rng.integers(0, C, n)


def played(seed, *, own_rows):
    """Play moments or own rows and three honest changes on an exact server; returns heads, A, the moves."""
    rng = np.random.default_rng(seed)
    server = ex.Ridge.of(*dyadic(rng, 20), C, 0.5)
    watcher = Watcher(released(server.head))
    A, changes = ex.floats(server.A), []
    for j in range(7):
        if own_rows:
            net = Summary.of(*dyadic(rng, 3), C)
        else:
            moment = np.zeros((D, C))
            moment[(np.arange(C) + j * C) % D, np.arange(C)] = 4.0
            net = Summary(np.zeros((D, D)), moment)
        server = server.plus(ex.exact(net.gram), ex.exact(net.moment))
        watcher.sent(net)
        watcher.heard(released(server.head))
        if j in (1, 3, 4):
            f, y = dyadic(rng, 1)
            before = server
            server = server.plus(ex.exact(f.T @ f), ex.exact(f.T @ np.eye(C)[y]))
            watcher.heard(released(server.head))
            # What the change did to the inverse of the honest state, without the attacker's own rows.
            P = ex.exact(watcher.total.gram)
            changes.append(ex.floats((server.A - P).inv() - (before.A - P).inv()))
    return watcher.watched(), A, changes


@pytest.mark.parametrize("own_rows", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_exact_heads_give_the_state_and_what_each_change_did_to_its_inverse(seed, own_rows):
    watched, A, changes = played(seed, own_rows=own_rows)
    fit = stitched(watched)
    assert len(fit.changes) == 3 and all(change.determined for change in fit.changes)
    assert gap(direct(fit.transcript).A, A) < 1e-8
    assert gap(fit.H, np.linalg.inv(A)) < 1e-8
    for change, truth in zip(fit.changes, changes, strict=True):
        assert np.linalg.norm(change.left @ change.block @ change.left.T - truth) < 1e-8 * np.linalg.norm(truth) + 1e-12


def test_a_message_leaves_alone_what_its_side_does_not_touch():
    side = np.random.default_rng(0).standard_normal((5, 3)) @ np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 0]])
    free = blank(side)
    assert free.shape == (3, 1) and np.abs(side @ free).max() < 1e-14
    assert blank(np.zeros((5, 3))).shape == (3, 3)


def test_only_what_stands_above_the_rounding_is_visible():
    rng = np.random.default_rng(0)
    head = Head(rng.standard_normal((40, 4)), "float32")
    variance = rounding([head, head])
    noise = rng.uniform(-1, 1, (40, 4)) * np.sqrt(3 * variance)
    assert visible(noise, variance)[0].shape[1] == 0
    u, r = rng.standard_normal((40, 1)), rng.standard_normal((1, 4))
    left, right = visible(u @ r + noise, variance)
    assert left.shape[1] == 1 and gap(left @ right, u @ r) < 1e-6


def test_an_infinite_head_is_refused():
    with pytest.raises(AttackError, match="not finite"):
        Watcher(Head(np.ones((2, 2)))).heard(Head(np.full((2, 2), np.inf)))

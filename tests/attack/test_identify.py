from dataclasses import replace

import numpy as np
import pytest

from exhume import Head
from exhume.attack._linalg import SingleEntries
from exhume.attack._linalg import StackFactor
from exhume.attack._linalg import factor_stack
from exhume.numerics import relative
from exhume.attack._linalg import smallest_eigenvalue
from exhume.attack.state import diagnose_rank
from exhume.attack.estimate import direct
from exhume.attack.session import Attack
from exhume.attack.transcript import Recorder
from exhume.attack.transcript import Transcript
from exhume.errors import AttackError, NotIdentifiedError
from exhume.protocol.summary import Summary
from tests.attack.cases import EPS, low, norm, roundoff
from tests.attack.worlds import World

LANCZOS = 1e-10  # the iteration's own relative accuracy, of eigenvalues
SIZES = [(5, 3), (24, 4), (63, 5), (64, 8), (97, 7), (130, 6)]


def ran(d, c, name, precision="float64", **options):
    world = World(d, c, n=3 * d, own=4 * d, precision=precision)
    transcript = Attack(world.target).run(world.probe(name, **options))
    return world, transcript


def plain(transcript):
    """Return Algorithm 1 in straight NumPy: raw and symmetric estimates by pseudo-inverse."""
    raw_A = transcript.Z @ np.linalg.pinv(transcript.X)
    raw_H = transcript.X @ np.linalg.pinv(transcript.Z)
    return raw_A, raw_H, 0.5 * (raw_A + raw_A.T), 0.5 * (raw_H + raw_H.T)


def error_of(rhs, stack, answer):
    """Return a bound on what two backward-stable solves of ``answer stack = rhs`` may differ by."""
    kappa = norm(stack) / low(stack)
    return roundoff((norm(rhs) + norm(answer) * norm(stack)) * kappa / low(stack), size=1)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("name", ["designed", "random", "own_data"])
@pytest.mark.parametrize(("d", "c"), SIZES)
def test_estimates_and_every_diagnostic_agree_with_numpy(d, c, name, precision):
    _, t = ran(d, c, name, precision)
    state = direct(t)
    found = state.diagnostics
    raw_A, raw_H, A, H = plain(t)
    error_A, error_H = error_of(t.Z, t.X, raw_A), error_of(t.X, t.Z, raw_H)
    assert norm(state.A - A) <= error_A
    assert norm(state.H - H) <= error_H
    assert norm(state.G - A @ t.baseline.weights) <= 2 * error_A * norm(t.baseline.weights)

    for stack, top, bottom, kappa, rank in (
        (t.X, found.sigma_max_X, found.sigma_min_X, found.kappa_X, found.rank_X),
        (t.Z, found.sigma_max_Z, found.sigma_min_Z, found.kappa_Z, found.rank_Z),
    ):
        values = np.linalg.svd(stack, compute_uv=False)
        slack = roundoff(values[0], size=d)
        assert abs(top - values[0]) <= slack + LANCZOS * values[0]
        assert abs(bottom - values[-1]) <= slack + LANCZOS * values[-1]
        assert rank == np.linalg.matrix_rank(stack, rtol=1e-10) == d
        assert np.isclose(kappa, np.linalg.cond(stack), rtol=2 * LANCZOS + 2 * slack / values[-1])

    size = norm(t.Z) + norm(A) * norm(t.X)
    assert abs(found.e_AR - norm(raw_A @ t.X - t.Z) / norm(t.Z)) <= (
        roundoff(size, size=d) + error_A * norm(t.X)
    ) / norm(t.Z)
    size = norm(t.X) + norm(H) * norm(t.Z)
    assert abs(found.e_HQ - norm(t.X - raw_H @ t.Z) / norm(t.X)) <= (
        roundoff(size, size=d) + error_H * norm(t.Z)
    ) / norm(t.X)
    gap = error_A * norm(H) + error_H * norm(A) + roundoff(norm(A) * norm(H), size=d)
    assert abs(found.e_AH - norm(A @ H - np.eye(d)) / np.sqrt(d)) <= gap
    assert abs(found.asymmetry_A - norm(raw_A - raw_A.T) / norm(raw_A)) <= 4 * error_A / norm(raw_A)
    assert abs(found.asymmetry_H - norm(raw_H - raw_H.T) / norm(raw_H)) <= 4 * error_H / norm(raw_H)
    for value, matrix, error in ((found.min_eigenvalue_A, A, error_A), (found.min_eigenvalue_H, H, error_H)):
        want = np.linalg.eigvalsh(matrix)[0]
        assert abs(value - want) <= error + roundoff(norm(matrix), size=d) + LANCZOS * want
    start = t.baseline.weights
    assert found.r_W == pytest.approx(norm(t.final.weights - start) / norm(start), rel=1e-12, abs=0)
    assert found.responses == t.responses and found.d == d and found.tolerance == 1e-10


@pytest.mark.parametrize(("d", "c"), SIZES)
def test_residuals_of_rounded_heads_are_those_of_the_raw_estimates(d, c):
    _, t = ran(d, c, "own_data", "16bits")
    found = direct(t).diagnostics
    raw_A, raw_H, A, H = plain(t)
    assert found.e_AR == pytest.approx(norm(raw_A @ t.X - t.Z) / norm(t.Z), rel=1e-4)
    assert found.e_HQ == pytest.approx(norm(t.X - raw_H @ t.Z) / norm(t.X), rel=1e-4)
    assert found.asymmetry_A == pytest.approx(norm(raw_A - raw_A.T) / norm(raw_A), rel=1e-4)
    assert found.asymmetry_H == pytest.approx(norm(raw_H - raw_H.T) / norm(raw_H), rel=1e-4)
    assert found.e_AH == pytest.approx(norm(A @ H - np.eye(d)) / np.sqrt(d), rel=1e-4)


def test_a_cancellation_that_left_something_shows_in_r_W_and_decides_nothing():
    _, t = ran(24, 4, "designed")
    found = direct(replace(t, final=Head(1.5 * t.baseline.weights))).diagnostics
    assert found.r_W == pytest.approx(0.5)


@pytest.mark.parametrize(("d", "c"), SIZES)
def test_A_is_direct_symmetric_and_not_the_inverse_of_H(d, c):
    _, t = ran(d, c, "own_data", "16bits")
    state = direct(t)
    raw_A, raw_H, A, H = plain(t)
    error_A, error_H = error_of(t.Z, t.X, raw_A), error_of(t.X, t.Z, raw_H)
    assert np.array_equal(state.A, state.A.T) and np.array_equal(state.H, state.H.T)
    assert norm(state.A - A) <= error_A < 0.01 * min(norm(raw_A - A), norm(np.linalg.inv(H) - A))
    assert norm(state.H - H) <= error_H < 0.01 * min(norm(raw_H - H), norm(np.linalg.inv(A) - H))


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(("d", "c"), [(24, 4), (97, 7)])
def test_the_estimate_is_near_the_hidden_state(d, c, precision):
    world, t = ran(d, c, "designed", precision)
    state = direct(t)
    u = {"float64": 2.0**-53, "float32": 2.0**-24}[precision]
    A = world.A
    heads = norm(t.X) + 2 * np.sqrt(t.responses) * norm(t.baseline.weights)
    solved = 10 * d * np.linalg.cond(A) * EPS
    assert norm(state.A - A) <= np.linalg.norm(A, 2) * (2 * u + solved) * heads / low(t.X) + norm(A) * solved


def test_a_designed_stack_has_condition_one_on_the_iterative_path():
    _, t = ran(130, 10, "designed")
    found = direct(t).diagnostics
    assert found.kappa_Z == pytest.approx(1.0, abs=1e-12)
    assert found.sigma_min_Z == pytest.approx(100.0, rel=1e-12)


@pytest.mark.parametrize(("d", "c"), [(24, 4), (64, 8), (97, 7), (130, 10)])
def test_one_random_response_too_few_fails_with_its_numbers(d, c):
    m = -(-d // c) - 1
    _, t = ran(d, c, "random", responses=m)
    with pytest.raises(
        NotIdentifiedError, match=rf"rank deficient: rank\(X\) = {m * c}, rank\(Z\) = {m * c}, needed {d}"
    ) as e:
        direct(t)
    found = e.value.diagnostics
    assert e.value.reason == str(e.value) and f"{m} responses" in e.value.reason
    assert (found.rank_X, found.rank_Z, found.d, found.responses) == (m * c, m * c, d, m)
    assert found.kappa_X == found.kappa_Z == np.inf
    assert found.e_AR is None and found.min_eigenvalue_A is None
    assert found.r_W is not None


@pytest.mark.parametrize(("d", "c"), [(24, 4), (97, 7)])
def test_columns_that_repeat_do_not_count(d, c):
    _, t = ran(d, c, "random", responses=2 * -(-d // c))
    few = t.first(2)
    doubled = Transcript(few.baseline, np.tile(few.X, (1, d)), np.tile(few.Z, (1, d)), 2 * d, None, "twice", True)
    found, _, _ = diagnose_rank(doubled)
    assert found.rank_X == found.rank_Z == np.linalg.matrix_rank(doubled.X, rtol=1e-10) == 2 * c
    with pytest.raises(NotIdentifiedError, match="rank deficient"):
        direct(doubled)


@pytest.mark.parametrize("side", ["X", "Z"])
def test_either_stack_alone_can_fail(side):
    _, t = ran(24, 4, "random")
    stacks = {"X": t.X, "Z": t.Z}
    flat = stacks[side].copy()
    flat[-1] = flat[0]
    stacks[side] = flat
    with pytest.raises(NotIdentifiedError, match=rf"rank\({side}\) = 23") as e:
        direct(Transcript(t.baseline, stacks["X"], stacks["Z"], t.responses, t.final, t.probe, True))
    assert {"X": e.value.diagnostics.rank_Z, "Z": e.value.diagnostics.rank_X}[side] == 24


@pytest.mark.parametrize("d", [6, 24, 97])
def test_an_indefinite_estimate_fails_and_is_not_projected(d):
    rng = np.random.default_rng(0)
    A = np.diag(np.r_[-1.0, np.linspace(1, 3, d - 1)])
    X = rng.normal(size=(d, 2 * d))
    t = Transcript(Head(np.zeros((d, 2))), X, A @ X, d, None, "made", True)
    with pytest.raises(NotIdentifiedError, match="unstable: smallest eigenvalue of A is -1") as e:
        direct(t)
    found = e.value.diagnostics
    assert found.min_eigenvalue_A == pytest.approx(-1.0) and found.min_eigenvalue_H == pytest.approx(-1.0)
    assert found.e_AR is not None and found.rank_X == d


def test_an_indefinite_H_alone_fails():
    # Found with a noisy stack: the two symmetrised estimates need not agree on definiteness.
    rng = np.random.default_rng(0)
    for _ in range(500):
        X = rng.normal(size=(4, 8))
        Z = np.diag([0.3, 1.0, 2.0, 3.0]) @ X + 0.5 * rng.normal(size=X.shape)
        raw_A, raw_H = Z @ np.linalg.pinv(X), X @ np.linalg.pinv(Z)
        low_A, low_H = (np.linalg.eigvalsh(m + m.T)[0] for m in (raw_A, raw_H))
        if low_A > 0 > low_H:
            break
    else:
        raise AssertionError("no such stack found")
    with pytest.raises(NotIdentifiedError, match="unstable") as e:
        direct(Transcript(Head(np.zeros((4, 2))), X, Z, 4, None, "made", True))
    assert e.value.diagnostics.min_eigenvalue_A > 0 > e.value.diagnostics.min_eigenvalue_H


@pytest.mark.parametrize("d", [10, 80])
def test_the_tolerance_decides(d):
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.normal(size=(n, d)))[0] for n in (d, 2 * d))
    X = (U * np.r_[np.geomspace(1, 1e-4, d - 1), 1e-6]) @ V.T
    t = Transcript(Head(np.zeros((d, 2))), X, 2.0 * X, d, None, "made", True)
    assert norm(direct(t).A - 2 * np.eye(d)) <= 1e6 * roundoff(norm(X), size=d)
    assert norm(direct(t, tolerance=0.5e-6).A - 2 * np.eye(d)) <= 1e6 * roundoff(norm(X), size=d)
    with pytest.raises(NotIdentifiedError, match="tolerance 2e-06") as e:
        direct(t, tolerance=2e-6)
    assert e.value.diagnostics.rank_X == np.linalg.matrix_rank(X, rtol=2e-6) == d - 1
    assert e.value.diagnostics.tolerance == 2e-6
    assert e.value.diagnostics.sigma_min_X == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.parametrize("columns", [0, 1, 23, 24, 25, 60])
def test_any_number_of_columns_is_handled(columns):
    rng = np.random.default_rng(columns)
    X = rng.normal(size=(24, columns))
    top, bottom, rank = StackFactor.of(X).singular_values(1e-10)
    values = np.zeros(24)
    values[: min(24, columns)] = np.linalg.svd(X, compute_uv=False) if columns else 0
    assert rank == min(24, columns)
    assert abs(top - values[0]) <= roundoff(values[0], size=24)
    assert abs(bottom - values[-1]) <= roundoff(values[0], size=24)


def test_right_division_pads_a_short_right_hand_side_like_the_stack():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(20, 35)), rng.normal(size=(20, 35))
    answer, residual = StackFactor.of(X).right_divide(Z)
    want = Z @ np.linalg.pinv(X)
    assert norm(answer - want) <= error_of(Z, X, want)
    assert residual == pytest.approx(norm(want @ X - Z), rel=1e-9)


@pytest.mark.parametrize("d", [3, 63, 64, 110])
def test_the_smallest_eigenvalue_is_right_for_any_sign(d):
    rng = np.random.default_rng(d)
    U = np.linalg.qr(rng.normal(size=(d, d)))[0]
    for least in (-2.0, -1e-3, 1e-3, 0.5):
        a = (U * np.r_[least, np.linspace(1, 4, d - 1)]) @ U.T
        a = 0.5 * (a + a.T)
        assert smallest_eigenvalue(a) == pytest.approx(least, rel=1e-8)


def test_the_first_responses_are_the_transcript_as_it_stood_then():
    world, t = ran(24, 4, "own_data")
    short = Attack(world.target)
    early = t.first(5)
    assert (early.responses, early.final, early.probe, early.moment_only) == (5, None, t.probe, t.moment_only)
    assert np.array_equal(early.X, t.X[:, :20]) and np.array_equal(early.Z, t.Z[:, :20])
    assert direct(t.first(t.responses)).diagnostics.r_W is None
    assert short.cost.messages == 0


def test_a_head_that_overflowed_is_refused():
    recorder = Recorder(Head(np.zeros((2, 1))), "big")
    recorder.sent(Summary(np.eye(2), np.ones((2, 1))))
    with pytest.raises(AttackError, match="not finite"):
        recorder.heard(Head(np.array([[np.inf], [0.0]])))


def test_relative_errors_have_a_floor():
    assert relative(np.full((1, 1), 1e-15), np.zeros((1, 1))) == pytest.approx(1.0)


def test_a_stack_of_single_entries_is_read_off_as_a_factored_one():
    rng = np.random.default_rng(0)
    d, width = 9, 12
    stack = np.zeros((d, width))
    stack[np.arange(d), rng.permutation(width)[:d]] = rng.normal(size=d)
    rhs = rng.normal(size=(5, width))
    quick, full = factor_stack(stack), StackFactor.of(stack)
    assert isinstance(quick, SingleEntries)
    np.testing.assert_allclose(quick.singular_values(1e-10), full.singular_values(1e-10), rtol=1e-12)
    for one, other in zip(quick.right_divide(rhs), full.right_divide(rhs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    stack[0], stack[1] = 0.0, stack[0] + stack[1]
    assert isinstance(factor_stack(stack), StackFactor)

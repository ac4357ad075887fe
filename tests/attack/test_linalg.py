"""Factors of stacks, against plain NumPy."""

import numpy as np
import pytest

from exhume.attack._linalg import (
    Positive,
    SingleEntries,
    StackFactor,
    diagonal,
    factor_stack,
    smallest_eigenvalue,
    symmetric_part,
)
from tests.attack.worlds import error_of, norm, roundoff


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


@pytest.mark.parametrize("d", [1, 5, 600])
def test_a_positive_matrix_by_its_factor(d):
    rng = np.random.default_rng(d)
    F = rng.normal(size=(2 * d, d))
    a, columns = F.T @ F + np.eye(d), rng.normal(size=(d, 3))
    factor, L = Positive.of(a), np.linalg.cholesky(a)
    slack = roundoff(norm(a) * norm(columns), size=d) * np.linalg.cond(a)
    assert norm(factor.solve(columns) - np.linalg.solve(a, columns)) <= slack
    assert norm(factor.whiten(columns) - L.T @ columns) <= slack
    assert norm(factor.colour(columns) - L @ columns) <= slack
    assert norm(factor.divide(columns) - np.linalg.solve(L, columns)) <= slack
    inverse = factor.inverse()
    assert np.array_equal(inverse, inverse.T)
    assert norm(inverse @ a - np.eye(d)) <= roundoff(norm(a) * norm(inverse), size=d)
    assert Positive.of(a - 2 * np.linalg.eigvalsh(a)[-1] * np.eye(d)) is None


@pytest.mark.parametrize(("d", "columns"), [(1, 1), (40, 47), (48, 48), (130, 150), (192, 400)])
def test_blocks_of_any_number_of_columns_fit(d, columns):
    rng = np.random.default_rng(d)
    X, M = rng.normal(size=(d, columns)) + np.eye(d, columns), rng.normal(size=(d, d))
    factor = StackFactor.of(X)
    R, moved = factor.triangle, factor.rotate(X)
    slack = roundoff(norm(X) ** 2, size=columns)
    assert norm(R.T @ R - X @ X.T) <= slack
    assert norm(moved[:, :d] - R.T) + norm(moved[:, d:]) <= roundoff(norm(X), size=columns)
    answer, residual = factor.right_divide(M @ X)
    assert norm(answer - M) <= error_of(M @ X, X, M)
    assert residual <= roundoff(norm(M @ X), size=columns)


def test_a_zero_on_the_diagonal_is_no_answer():
    X = np.random.default_rng(0).normal(size=(70, 90))
    X[66] = 0.0
    with pytest.raises(np.linalg.LinAlgError, match=r"a zero on its diagonal \(67\)"):
        StackFactor.of(X).right_divide(X)


def test_the_symmetric_part_and_what_it_leaves_out():
    a = np.random.default_rng(0).normal(size=(31, 31))
    for order in ("C", "F"):
        half, share = symmetric_part(np.array(a, order=order))
        np.testing.assert_array_equal(half, 0.5 * (a + a.T))
        assert share == pytest.approx(norm(a - a.T) / norm(a), rel=1e-14)


def test_a_vector_is_solved_for_like_a_matrix():
    F = np.random.default_rng(0).normal(size=(60, 30))
    factor, x = Positive.of(F.T @ F), np.arange(30.0)
    np.testing.assert_allclose(factor.solve(x), factor.solve(x[:, None])[:, 0], rtol=1e-10)


@pytest.mark.parametrize("width", [4, 7])
def test_a_diagonal_of_one_value_takes_one_line_of_memory(width):
    flat, uneven = diagonal(np.full(4, 3.0), width), diagonal(np.arange(1.0, 5.0), width)
    for made, values in ((flat, np.full(4, 3.0)), (uneven, np.arange(1.0, 5.0))):
        np.testing.assert_array_equal(made, np.pad(np.diag(values), ((0, 0), (0, width - 4))))
        assert not made.flags.writeable
    assert flat.strides == (-8, 8)


def test_the_symmetric_quotient_of_single_entries_is_the_least_squares_one():
    rng = np.random.default_rng(3)
    d, width = 7, 9
    stack = np.zeros((d, width))
    stack[np.arange(d), rng.permutation(width)[:d]] = rng.uniform(0.5, 2.0, d)
    rhs = rng.normal(size=(d, width))
    answer, left, skew = factor_stack(stack).symmetric_quotient(rhs)
    # The plain way: one unknown for each pair i <= j, solved as one least-squares problem.
    pairs = [(i, j) for i in range(d) for j in range(i + 1)]
    table = np.zeros((d * width, len(pairs)))
    for k, (i, j) in enumerate(pairs):
        one = np.zeros((d, d))
        one[i, j] = one[j, i] = 1.0
        table[:, k] = (one @ stack).ravel()
    found, *_ = np.linalg.lstsq(table, rhs.ravel(), rcond=None)
    want = np.zeros((d, d))
    for value, (i, j) in zip(found, pairs, strict=True):
        want[i, j] = want[j, i] = value
    np.testing.assert_allclose(answer, want, rtol=1e-10, atol=1e-12)
    assert left == pytest.approx(norm(want @ stack - rhs), rel=1e-12)
    raw = rhs @ np.linalg.pinv(stack)
    assert skew == pytest.approx(norm(raw - raw.T) / norm(raw), rel=1e-12)

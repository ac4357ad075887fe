"""Factors of stacks, against plain NumPy."""

import numpy as np
import pytest

from exhume.attack._linalg import SingleEntries, StackFactor, factor_stack, smallest_eigenvalue
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

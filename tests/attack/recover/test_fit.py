"""Class and length of a record from a rank-one change."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from exhume.attack.recover.fit import fit_scale


@settings(max_examples=50)
@given(st.integers(0, 3), st.floats(0.1, 20), st.integers(0, 2**32 - 1))
def test_fit_scale_finds_the_length_that_made_the_right_vector(k, t, seed):
    scores = np.random.default_rng(seed).normal(size=4) / (2 * t)
    right = -t * t * scores
    right[k] += t
    found, misfit = fit_scale(right, scores)
    assert misfit[k] <= 1e-9 * np.linalg.norm(right)
    assert misfit.argmin() == k or np.sort(misfit)[1] < 1e-9 * np.linalg.norm(right)
    assert abs(found[k] - t) <= 1e-6 * t or abs(right + found[k] ** 2 * scores - found[k] * np.eye(4)[k]).max() < 1e-8

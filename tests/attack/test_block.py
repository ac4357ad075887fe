"""A recovered deletion."""

import numpy as np
import pytest

from exhume.attack.block import Block


def test_a_projected_block_is_positive_semidefinite_and_nearest():
    rng = np.random.default_rng(0)
    gram = rng.normal(size=(6, 6))
    gram = gram + gram.T
    block = Block(gram, rng.normal(size=(6, 2)))
    values, vectors = np.linalg.eigh(gram)
    clipped = (vectors * np.maximum(values, 0)) @ vectors.T
    projected = block.projected()
    assert block.min_eigenvalue == pytest.approx(values[0]) and values[0] < 0
    np.testing.assert_allclose(projected.gram, clipped, atol=1e-13)
    assert projected.min_eigenvalue >= -1e-14
    assert projected.moment is block.moment
    negative = Block(-np.eye(3), np.zeros((3, 1))).projected()
    assert not negative.gram.any()

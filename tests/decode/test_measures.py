import numpy as np
import pytest

from exhume.decode.measures import Scores, beats, nearest, psnr, ssim
from exhume.errors import InputError

RNG = np.random.default_rng(0)
SHAPES = [(5, 8, 8), (5, 28, 28), (3, 32, 32, 3), (2, 7, 9)]


@pytest.mark.parametrize("shape", SHAPES)
def test_ssim_is_scikit_images(shape):
    skimage = pytest.importorskip("skimage.metrics", reason="scikit-image, the oracle, is not installed")
    x = RNG.random(shape)
    for y in (RNG.random(shape), np.clip(x + 0.1 * RNG.standard_normal(shape), 0, 1), np.zeros(shape), x):
        channel = 2 if len(shape) == 4 else None
        oracle = [
            skimage.structural_similarity(a, b, data_range=1.0, channel_axis=channel) for a, b in zip(x, y, strict=True)
        ]
        assert np.allclose(ssim(x, y), oracle, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_psnr_by_hand(shape):
    x = RNG.random(shape)
    assert np.allclose(psnr(np.clip(x, 0, 0.5), np.clip(x, 0, 0.5) + 0.1), 20.0)
    assert np.isinf(psnr(x, x)).all()


def test_nearest_is_the_brute_forces():
    known, asked = RNG.random((300, 4, 4)), RNG.random((270, 4, 4))
    distances = np.linalg.norm(asked.reshape(270, 1, -1) - known.reshape(1, 300, -1), axis=2)
    assert np.array_equal(nearest(asked, known), distances.argmin(axis=1))


def test_beats_asks_for_more_than_chance():
    base = np.zeros(200)
    assert beats(base + 1, base) and not beats(base, base + 1) and not beats(base, base)
    # 7 wins and no loss have probability 1/128 under the null, 6 have 1/64: the level of 1% lies between.
    for wins, expected in ((6, False), (7, True)):
        ours = base.copy()
        ours[:wins] = 1
        assert beats(ours, base) is expected
        assert beats(ours.astype(bool), base.astype(bool)) is expected
    # Ties count for nothing, however many there are; losses count.
    mixed = base.copy()
    mixed[:7], mixed[7:10] = 1, -1
    assert not beats(mixed, base)


def test_scores_survive_json():
    scores = Scores(np.array([1.5, 2.0]), np.array([0.1, 0.2]), np.array([True, False]), np.array([False, True]), None)
    again = Scores.of(scores.plain())
    assert np.array_equal(again.psnr, scores.psnr) and again.label.dtype == bool and again.second is None


def test_shapes_must_match():
    with pytest.raises(InputError, match="of the targets' shape"):
        psnr(np.zeros((2, 8, 8)), np.zeros((2, 8, 9)))
    with pytest.raises(InputError, match="at least 7 pixels"):
        ssim(np.zeros((2, 6, 8)), np.zeros((2, 6, 8)))
    with pytest.raises(InputError, match="rows of 4 numbers"):
        nearest(np.zeros((2, 3)), np.zeros((2, 4)))
    with pytest.raises(InputError, match="same records"):
        beats(np.zeros(3), np.zeros(4))

import importlib.util

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from exhume.decode import REGISTRY, build, load, save
from exhume.decode.linear import crossed, fit_linear
from exhume.decode.measures import psnr
from exhume.errors import InputError, MissingExtraError

# The diffusion decoder has tests of its own: it needs an autoencoder and takes longer.
NAMES = [name for name in REGISTRY if name != "diffusion"]
QUICK = {"mlp": {"steps": 120, "hidden": 128}}
"""Options with which a network is trained in a second: its tests run wherever torch is."""

TRAINED = {}


def fitted(digits, name, rows=600):
    """A decoder of the first rows, each trained once; skips where what trains it is not installed."""
    if REGISTRY[name].extra:
        pytest.importorskip("torch", reason="the 'decode' extra (torch) is not installed")
    if (name, rows) not in TRAINED:
        TRAINED[name, rows] = train(digits, name, rows)
    return TRAINED[name, rows]


def train(digits, name, rows=600, seed=3, **options):
    return build(name, **{**QUICK.get(name, {}), **options}).fit(
        digits.train_features[:rows],
        digits.images.train_images[:rows],
        labels=digits.train_labels[:rows],
        encoder="random-relu",
        seed=seed,
    )


def drawn(decoder, digits, rows=60, seed=0):
    labels = digits.test_labels[:rows]
    return decoder.decode(digits.test_features[:rows], generator=np.random.default_rng(seed), labels=labels)


def test_the_registry_has_the_nulls_and_the_decoders():
    assert set(REGISTRY) >= {"mean", "class-mean", "ridge", "mlp", "retrieval", "diffusion"}
    assert {name for name, entry in REGISTRY.items() if entry.extra} == {"mlp", "diffusion"}
    with pytest.raises(InputError, match="did you mean 'ridge'"):
        build("rigde")


@pytest.mark.parametrize("name", NAMES)
def test_every_decoder_draws_pictures_of_the_records_shape(digits, name):
    decoder = fitted(digits, name)
    pictures = drawn(decoder, digits)
    assert pictures.shape == (60, 8, 8) and pictures.dtype == np.float64
    assert pictures.min() >= 0 and pictures.max() <= 1
    assert np.array_equal(pictures, drawn(decoder, digits))


@pytest.mark.parametrize("name", NAMES)
def test_the_record_says_what_it_was_trained_on(digits, name):
    record = fitted(digits, name).record
    assert (record.decoder, record.encoder, record.rows, record.dim) == (name, "random-relu", 600, 128)
    assert (record.shape, record.seed) == ((8, 8), 3)
    assert record.steps == QUICK.get(name, {}).get("steps", 0)
    assert np.isfinite(record.loss)
    assert record.data == fitted(digits, "mean").record.data != fitted(digits, "mean", rows=599).record.data


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_decoder_draws_the_same_pictures(digits, name, tmp_path):
    decoder = fitted(digits, name)
    save(decoder, tmp_path / "d.safetensors")
    again = load(tmp_path / "d.safetensors", decoder=name, encoder="random-relu", data=decoder.record.data)
    assert again.record == decoder.record
    assert np.array_equal(drawn(again, digits), drawn(decoder, digits))


@pytest.mark.parametrize("name", ["ridge", "mlp"])
def test_what_learns_from_features_is_far_closer_than_the_nulls(digits, name):
    targets = digits.images.test_images[:60] / 255
    ours = psnr(drawn(fitted(digits, name), digits), targets).mean()
    nulls = [psnr(drawn(fitted(digits, null), digits), targets).mean() for null in ("mean", "class-mean", "retrieval")]
    assert ours > max(nulls) + 3


def test_the_means_are_means(digits):
    images, labels = digits.images.train_images[:600] / 255, digits.train_labels[:600]
    assert np.allclose(drawn(fitted(digits, "mean"), digits, 2), images.mean(axis=0))
    seven = fitted(digits, "class-mean").decode(
        digits.test_features[:2], generator=np.random.default_rng(0), labels=np.array([7, 42])
    )
    assert np.allclose(seven[0], images[labels == 7].mean(axis=0))
    assert np.allclose(seven[1], images.mean(axis=0)), "a label that was never seen gets the mean of all"


def test_a_class_without_rows_gets_the_mean_of_all(digits):
    keep = np.flatnonzero(digits.train_labels != 3)[:300]
    images = digits.images.train_images[keep]
    decoder = build("class-mean").fit(digits.train_features[keep], images, labels=digits.train_labels[keep])
    three = decoder.decode(digits.test_features[:1], generator=np.random.default_rng(0), labels=np.array([3]))
    assert np.allclose(three, images.mean(axis=0) / 255)


def test_retrieval_gives_a_training_picture_back(digits):
    decoder = fitted(digits, "retrieval")
    own = decoder.decode(digits.train_features[:50], generator=np.random.default_rng(0))
    assert np.array_equal(own, digits.images.train_images[:50] / 255)
    other = drawn(decoder, digits, 5).reshape(5, -1)
    known = (digits.images.train_images[:600] / 255).reshape(600, -1)
    assert all((known == row).all(axis=1).any() for row in other)


def test_ridge_is_scikit_learns_at_the_penalty_of_least_leave_one_out_error(digits):
    features, images = digits.train_features[:300], digits.images.train_images[:300].reshape(300, -1) / 255
    linear = fit_linear(features, images)
    scaled = linear.standard(features)
    oracle = Ridge(linear.penalty).fit(scaled, images)
    assert np.allclose(linear(digits.test_features), oracle.predict(linear.standard(digits.test_features)))

    def left_out(penalty):
        centred = scaled - scaled.mean(axis=0)
        hat = centred @ np.linalg.solve(centred.T @ centred + penalty * np.eye(128), centred.T) + 1 / 300
        return np.mean(((images - hat @ images) / (1 - np.diag(hat))[:, None]) ** 2)

    assert left_out(linear.penalty) <= min(left_out(linear.penalty * 10**0.5), left_out(linear.penalty / 10**0.5))


def test_crossed_predictions_do_not_know_their_own_row():
    rng = np.random.default_rng(0)
    features, noise = rng.standard_normal((200, 100)), rng.standard_normal((200, 1))
    within = fit_linear(features, noise, 1e-3)(features)
    guesses = crossed(features, noise, 1e-3, np.random.default_rng(1))
    assert np.corrcoef(within[:, 0], noise[:, 0])[0, 1] > 0.5
    assert abs(np.corrcoef(guesses[:, 0], noise[:, 0])[0, 1]) < 0.25


def test_the_mlps_weights_follow_the_seed_alone(digits):
    pytest.importorskip("torch", reason="the 'decode' extra (torch) is not installed")
    first, again, other = (train(digits, "mlp", seed=s, steps=5).state for s in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["weight0"], other["weight0"])


def test_the_mlp_draws_without_torch_what_torch_would(digits):
    torch = pytest.importorskip("torch", reason="the 'decode' extra (torch) is not installed")
    decoder = fitted(digits, "mlp")
    net = decoder._net(torch, 128, 64).eval()
    layers = dict(zip((0, 3, 5), range(3), strict=True))
    for position, number in layers.items():
        net[position].weight.data = torch.from_numpy(decoder.state[f"weight{number}"])
        net[position].bias.data = torch.from_numpy(decoder.state[f"bias{number}"])
    scaled = (digits.test_features[:20] - decoder.state["centre"]) / decoder.state["spread"]
    with torch.no_grad():
        pixels = net(torch.from_numpy(scaled.astype(np.float32))).numpy() + decoder.state["mean"]
    assert np.allclose(drawn(decoder, digits, 20).reshape(20, -1), np.clip(pixels, 0, 1), atol=1e-5)


def test_without_the_extra_an_error_says_what_brings_it(digits, monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name in ("torch", "diffusers") else there(name, *a)
    )
    for name in ("mlp", "diffusion"):
        with pytest.raises(MissingExtraError, match=r"needs the 'decode' extra: pip install 'exhume\[decode\]'"):
            train(digits, name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": None}, "images must be 8-bit"),
        ({"images": np.zeros((5, 8, 8))}, "images must be 8-bit.*got float64"),
        ({"images": np.zeros((5, 8, 8, 4), np.uint8)}, "images must be 8-bit"),
        ({"features": np.zeros((4, 3))}, "one row for each of the 5 images"),
        ({"features": np.zeros((0, 3)), "images": np.zeros((0, 8, 8), np.uint8)}, "one row for each"),
        ({"features": [["a"]] * 5}, r"features must be an array of real numbers; got <U1 of shape \(5, 1\)"),
        ({"features": [["1.5"]] * 5}, "features must be an array of real numbers"),
        ({"features": [[1.0], [1.0, 2.0]] * 2}, "features must be an array with rows of one length"),
        ({"features": np.ones((5, 3), complex)}, "features must be an array of real numbers; got complex128"),
        ({"features": None}, "features must be an array of real numbers"),
        ({"images": [[[1]], [[1, 2]]]}, "images must be an array with rows of one length"),
        ({"labels": [[1], [1, 2]]}, "labels must be an array with rows of one length"),
        ({"features": np.full((5, 3), np.nan)}, "features must be finite"),
        ({"labels": np.zeros(4, int)}, "labels must be 5 integers"),
        ({"labels": -np.ones(5, int)}, "labels must be 5 integers"),
        ({"labels": np.zeros(5)}, "labels must be 5 integers"),
    ],
)
def test_bad_pairs_are_refused(change, message):
    given = {"features": np.ones((5, 3)), "images": np.zeros((5, 8, 8), np.uint8), "labels": None} | change
    with pytest.raises(InputError, match=message):
        build("mean").fit(given["features"], given["images"], labels=given["labels"])


def test_bad_features_are_refused(digits):
    decoder, rng = fitted(digits, "ridge"), np.random.default_rng(0)
    with pytest.raises(InputError, match=r"features must be N x 128, as in training; got shape \(2, 127\)"):
        decoder.decode(np.ones((2, 127)), generator=rng)
    with pytest.raises(InputError, match="features must be finite"):
        decoder.decode(np.full((2, 128), np.inf), generator=rng)
    for odd in ([["a"] * 128], [["1"] * 128], [[1.0] * 128, [1.0]], None):
        with pytest.raises(InputError, match="features must be an array"):
            decoder.decode(odd, generator=rng)
    with pytest.raises(InputError, match="decoder must be one that was fitted"):
        build("ridge").decode(np.ones((2, 128)), generator=rng)
    with pytest.raises(InputError, match="labels must be given"):
        fitted(digits, "class-mean").decode(np.ones((2, 128)), generator=rng)
    with pytest.raises(InputError, match="labels must be given"):
        build("class-mean").fit(digits.train_features, digits.images.train_images)


def test_features_of_another_encoder_are_refused_where_it_is_told(digits):
    decoder, rng = fitted(digits, "ridge"), np.random.default_rng(0)
    features = digits.test_features[:2]
    assert np.array_equal(
        decoder.decode(features, generator=rng, encoder="random-relu"), decoder.decode(features, generator=rng)
    )
    with pytest.raises(InputError, match="encoder must be random-relu, as in training; got random-fourier"):
        decoder.decode(features, generator=rng, encoder="random-fourier")
    nameless = build("mean").fit(digits.train_features[:9], digits.images.train_images[:9])
    with pytest.raises(InputError, match="encoder must be absent: the record names none; got random-relu"):
        nameless.decode(features, generator=rng, encoder="random-relu")


@pytest.mark.parametrize("name", NAMES)
def test_no_features_are_no_pictures(digits, name):
    assert drawn(fitted(digits, name), digits, 0).shape == (0, 8, 8)


@pytest.mark.parametrize("name", ["mean", "class-mean", "retrieval", "ridge"])
@pytest.mark.filterwarnings("error")
def test_one_row_is_enough_and_is_all_that_is_drawn(digits, name):
    pictures = drawn(fitted(digits, name, rows=1), digits, 3)
    assert np.allclose(pictures, digits.images.train_images[0] / 255)

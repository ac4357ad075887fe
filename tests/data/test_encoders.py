import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from exhume.data import encoders, load
from exhume.data.encoders import Options
from exhume.errors import InputError, MissingExtraError

PIXELS = np.random.default_rng(0).integers(0, 256, (9, 8, 8), dtype=np.uint8)


def test_registry_has_the_promised_encoders():
    dims = {name: entry.dim for name, entry in encoders.REGISTRY.items()}
    assert dims == {
        "dinov2-vitb14": 768,
        "dinov2-vits14": 384,
        "mobilenetv2": 1280,
        "none": None,
        "random-relu": None,
        "resnet18": 512,
    }


def test_random_relu_is_relu_of_a_normal_projection():
    model = encoders.build("random-relu", Options(width=64, dim=20, seed=3))
    projection = np.random.default_rng(3).standard_normal((64, 20))
    rows = PIXELS.reshape(9, 64) / 255
    expected = np.maximum((rows - rows.mean(axis=1, keepdims=True)) @ projection, 0)
    assert model.encode(PIXELS).dtype == np.float32
    np.testing.assert_allclose(model.encode(PIXELS), expected, rtol=1e-4, atol=1e-5)


def test_random_relu_leaves_features_alone():
    rows = np.random.default_rng(1).standard_normal((4, 6))
    model = encoders.build("random-relu", Options(width=6, dim=3))
    expected = np.maximum(rows @ np.random.default_rng(0).standard_normal((6, 3)), 0)
    np.testing.assert_allclose(model.encode(rows), expected, rtol=1e-4, atol=1e-5)


def test_random_relu_keeps_digits_apart():
    """No unit may be dead on digits with the default seed: the demonstrations need full feature rank."""
    features = encoders.build("random-relu", Options(width=64, dim=256)).encode(load("digits").train_images)
    values = np.linalg.svd(features.astype(float), compute_uv=False)
    assert values[0] / values[-1] < 1e4


def test_none_flattens():
    model = encoders.build("none", Options(width=64))
    assert model.dim == 64
    assert np.array_equal(model.encode(PIXELS), PIXELS.reshape(9, 64))


def test_fingerprints_tell_encoders_apart(tmp_path):
    other = tmp_path / "other.pth"
    other.write_bytes(b"other weights")
    built = [
        encoders.build("random-relu", Options(width=64, dim=10)),
        encoders.build("random-relu", Options(width=64, dim=11)),
        encoders.build("random-relu", Options(width=64, dim=10, seed=1)),
        encoders.build("none", Options(width=64)),
        encoders.build("resnet18", Options(width=64)),
        encoders.build("resnet18", Options(width=64, resize="8-bit")),
        encoders.build("resnet18", Options(width=64, weights=other)),
        encoders.build("mobilenetv2", Options(width=64)),
        encoders.build("dinov2-vitb14", Options(width=64)),
        encoders.build("dinov2-vits14", Options(width=64)),
    ]
    assert len({model.fingerprint for model in built}) == len(built)


def test_fingerprint_does_not_depend_on_the_machine():
    model = encoders.build("random-relu", Options(width=64, dim=256, seed=0))
    assert model.fingerprint == "10e0137ae570cafa0be672c921fd68423e8b6dc1624e2883140504c5a7cd94a9"


@pytest.mark.parametrize(
    ("name", "options", "field"),
    [
        ("resnet18", {"dim": 100}, "dim"),
        ("none", {"dim": 100}, "dim"),
        ("random-relu", {"dim": 0}, "dim"),
        ("random-relu", {"seed": -1}, "seed"),
        ("random-relu", {"weights": Path("w.pth")}, "weights"),
        ("resnet18", {"sha256": "00"}, "sha256"),
        ("resnet18", {"resize": "16-bit"}, "resize"),
        ("resnet50", {}, "encoder"),
    ],
)
def test_bad_options_name_their_field(name, options, field):
    with pytest.raises(InputError) as caught:
        encoders.build(name, Options(width=64, **options))
    assert caught.value.field == field


def test_missing_torch_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"the resnet18 encoder needs the 'vision' extra"):
        encoders.build("resnet18", Options(width=64)).encode(PIXELS)


def test_room_imports_no_torch_and_no_sklearn():
    code = (
        "import sys, exhume.data as d; d.load_features('digits'); from exhume.data import encoders; "
        "encoders.REGISTRY; print([m for m in ('torch', 'PIL', 'sklearn', 'urllib.request') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("[]", "['urllib.request']")

import collections
import hashlib
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest

from exhume.data import load, load_features
from exhume.data.catalogue import Holding, Item
from exhume.data.encoders import Options, build
from exhume.data.encoders.dinov2 import NETWORKS
from exhume.data.encoders.mobilenetv2 import NETWORK as MOBILENET
from exhume.data.encoders.resnet18 import NETWORK as RESNET
from exhume.data.encoders.torch_encoder import TorchEncoder, normalise, resize_8bit
from exhume.data.encoders.weights import read_tensors
from exhume.errors import DataError, InputError

torch = pytest.importorskip("torch", reason="the 'vision' extra is not installed")
pytestmark = pytest.mark.extras
functional = torch.nn.functional

GREY = np.random.default_rng(0).integers(0, 256, (2, 28, 28), dtype=np.uint8)
COLOUR = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
ALL = [RESNET, MOBILENET, *NETWORKS.values()]


def random_state(network):
    generator = torch.Generator().manual_seed(0)
    state = {}
    for name, shape in network.shapes.items():
        scale = np.sqrt(2 / max(int(np.prod(shape[1:])), 1)) if len(shape) > 1 else 0.1
        state[name] = torch.randn(shape, generator=generator) * scale
        if name.endswith(("running_var", "bn1.weight", "bn2.weight")):
            state[name] = state[name].abs() + 0.5
    return state


@pytest.fixture
def checkpoint(tmp_path):
    def save(network):
        path = tmp_path / f"{network.name}.pth"
        torch.save(random_state(network), path)
        return path

    return save


@pytest.mark.parametrize("network", ALL, ids=lambda network: network.name)
def test_number_of_parameters_is_the_published_one(network):
    published = {
        "resnet18": 11_689_512,
        "mobilenetv2": 3_504_872,
        "dinov2-vitb14": 86_580_480,
        "dinov2-vits14": 22_056_576,
    }
    counted = [shape for name, shape in network.shapes.items() if "running" not in name]
    assert sum(int(np.prod(shape)) for shape in counted) == published[network.name]


@pytest.mark.parametrize("network", [RESNET, MOBILENET, NETWORKS["dinov2-vits14"]], ids=lambda network: network.name)
@pytest.mark.parametrize("images", [GREY, COLOUR], ids=["grey", "colour"])
def test_encoders_give_features_of_their_width(network, images, checkpoint):
    model = build(network.name, Options(width=1, weights=checkpoint(network)))
    features = model.encode(images)
    assert features.shape == (2, network.dim)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    assert np.array_equal(features, model.encode(images))


def test_resnet_is_the_textbook_one_on_random_weights():
    """The folded pass against convolution, batch normalisation and ReLU one by one."""
    state = random_state(RESNET)
    batch = normalise(torch.from_numpy(COLOUR))

    def conv_norm(x, conv, norm, stride, padding):
        x = functional.conv2d(x, state[f"{conv}.weight"], None, stride, padding)
        parts = [state[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")]
        return functional.batch_norm(x, *parts)

    x = functional.max_pool2d(conv_norm(batch, "conv1", "bn1", 2, 3).relu(), 3, 2, 1)
    for stage in range(1, 5):
        for block in range(2):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y = conv_norm(x, f"{name}.conv1", f"{name}.bn1", stride, 1).relu()
            y = conv_norm(y, f"{name}.conv2", f"{name}.bn2", 1, 1)
            side = conv_norm(x, f"{name}.downsample.0", f"{name}.downsample.1", stride, 0) if stride == 2 else x
            x = (y + side).relu()
    torch.testing.assert_close(RESNET.forward(RESNET.prepare(state), batch), x.mean((2, 3)), rtol=1e-3, atol=1e-3)


def test_dinov2_attention_is_torchs_own():
    """One block against torch's multi-head attention with the same weights."""
    from exhume.data.encoders.dinov2 import _block

    width, name = 384, "blocks.0"
    state = random_state(NETWORKS["dinov2-vits14"])
    x = torch.randn(2, 5, width, generator=torch.Generator().manual_seed(1))
    attention = torch.nn.MultiheadAttention(width, 6, batch_first=True)
    attention.in_proj_weight.data = state[f"{name}.attn.qkv.weight"]
    attention.in_proj_bias.data = state[f"{name}.attn.qkv.bias"]
    attention.out_proj.weight.data = state[f"{name}.attn.proj.weight"]
    attention.out_proj.bias.data = state[f"{name}.attn.proj.bias"]
    norms = [torch.nn.LayerNorm(width, eps=1e-6) for _ in range(2)]
    for norm, part in zip(norms, ("norm1", "norm2"), strict=True):
        norm.weight.data, norm.bias.data = state[f"{name}.{part}.weight"], state[f"{name}.{part}.bias"]
    with torch.no_grad():
        y = norms[0](x)
        expected = x + attention(y, y, y, need_weights=False)[0] * state[f"{name}.ls1.gamma"]
        hidden = functional.linear(norms[1](expected), state[f"{name}.mlp.fc1.weight"], state[f"{name}.mlp.fc1.bias"])
        out = functional.linear(functional.gelu(hidden), state[f"{name}.mlp.fc2.weight"], state[f"{name}.mlp.fc2.bias"])
        expected = expected + out * state[f"{name}.ls2.gamma"]
        torch.testing.assert_close(_block(functional, state, name, x), expected, rtol=1e-4, atol=1e-4)


def cubic(values, count, scale):
    """Cubic convolution (a = -0.75) at the centres of `count` cells, written out."""

    def weight(t):
        t = abs(t)
        if t <= 1:
            return 1.25 * t**3 - 2.25 * t**2 + 1
        return -0.75 * (t**3 - 5 * t**2 + 8 * t - 4) if t < 2 else 0.0

    out = []
    for centre in ((index + 0.5) / scale - 0.5 for index in range(count)):
        near = range(int(np.floor(centre)) - 1, int(np.floor(centre)) + 3)
        out.append(sum(weight(centre - k) * values[min(max(k, 0), len(values) - 1)] for k in near))
    return np.array(out)


def test_dinov2_positions_shrink_to_the_papers_grid():
    """DINOv2 scales its 37 x 37 grid by 16.1 / 37, not by 16 / 37."""
    network = NETWORKS["dinov2-vits14"]
    state = random_state(network)
    row = np.random.default_rng(0).standard_normal(37).astype(np.float32)
    field = torch.from_numpy(row).view(1, 37, 1).expand(37, 37, 384).reshape(1, -1, 384)
    state["pos_embed"] = torch.cat([torch.full((1, 1, 384), 7.0), field], dim=1)
    position = network.prepare(state)["pos_embed"]
    assert position.shape == (1, 1 + 16 * 16, 384)
    assert (position[0, 0] == 7).all()
    expected = np.tile(cubic(row, 16, 16.1 / 37), (16, 1))
    np.testing.assert_allclose(position[0, 1:, 0].view(16, 16).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_preprocessing_is_the_papers():
    batch = normalise(torch.from_numpy(GREY))
    assert batch.shape == (2, 3, 224, 224)
    # Eight times as large and bilinear: the middle of four pixels is their mean.
    middle = GREY[0, 3:5, 5:7].mean() / 255
    patch = batch[0, :, 31:33, 47:49].mean((1, 2)).numpy()
    np.testing.assert_allclose(patch, (middle - np.array([0.485, 0.456, 0.406])) / [0.229, 0.224, 0.225], rtol=1e-4)


def test_8bit_resizing_rounds():
    pytest.importorskip("PIL", reason="the 'vision' extra is not installed")
    pixels = resize_8bit(COLOUR)
    assert pixels.shape == (2, 224, 224, 3)
    assert pixels.dtype == np.uint8
    floats, rounded = (normalise(torch.from_numpy(images)) for images in (COLOUR, pixels))
    # Each of the filter's two passes rounds to 8 bits: together, at most one step of 1/255.
    assert 0 < float((floats - rounded).abs().max()) <= 1.01 / 255 / 0.224


@pytest.mark.parametrize("change", ["missing", "extra", "shape"])
def test_checkpoint_of_something_else_is_refused(tmp_path, change):
    state = random_state(RESNET)
    if change == "missing":
        del state["layer3.0.conv1.weight"]
    elif change == "extra":
        state["layer9"] = torch.zeros(1)
    else:
        state["conv1.weight"] = torch.zeros(64, 1, 7, 7)
    torch.save(state, tmp_path / "w.pth")
    with pytest.raises(DataError, match="not a checkpoint of resnet18: 1 tensors differ"):
        build("resnet18", Options(width=1, weights=tmp_path / "w.pth")).encode(GREY)


def test_given_weights_are_held_to_their_hash(checkpoint):
    path = checkpoint(RESNET)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    model = build("resnet18", Options(width=1, weights=path, sha256=digest))
    assert model.weights_sha256 == digest
    model.encode(GREY)
    with pytest.raises(DataError, match=f"has SHA-256 {digest}, not 00"):
        build("resnet18", Options(width=1, weights=path, sha256="00")).encode(GREY)
    with pytest.raises(DataError, match="is not a file"):
        build("resnet18", Options(width=1, weights=path.with_name("absent"))).encode(GREY)


def test_unknown_device(checkpoint):
    with pytest.raises(InputError, match="device"):
        build("resnet18", Options(width=1, weights=checkpoint(RESNET), device="abacus")).encode(GREY)


def test_weights_in_other_forms(tmp_path):
    state = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2)}
    from safetensors.torch import save_file

    save_file(state, tmp_path / "w.safetensors")
    # A plain pickle, not torch's own format.
    with (tmp_path / "w.pkl").open("wb") as stream:
        pickle.dump(collections.OrderedDict(state), stream)
    digest = hashlib.sha256((tmp_path / "w.pkl").read_bytes()).hexdigest()
    for found in (
        read_tensors(tmp_path / "w.safetensors", set()),
        read_tensors(tmp_path / "w.pkl", {digest}),
    ):
        assert set(found) == {"a", "b"}
        assert all(torch.equal(found[name], state[name]) for name in state)
    with pytest.raises(DataError, match="pickle of unknown hash"):
        read_tensors(tmp_path / "w.pkl", set())


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


@pytest.mark.parametrize("suffix", ["pkl", "pth"])
def test_no_code_in_weights_is_run(tmp_path, monkeypatch, suffix):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"w.{suffix}"
    path.write_bytes(pickle.dumps(Evil(), protocol=2))
    with pytest.raises(DataError, match="cannot be read as weights"):
        read_tensors(path, {hashlib.sha256(path.read_bytes()).hexdigest()})
    assert not (tmp_path / "evil").exists()


def test_weights_are_found_by_hash_on_the_data_path(checkpoint, home, tmp_path, monkeypatch):
    path = checkpoint(RESNET)
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    path.rename(shelf / "some name.pth")
    content = (shelf / "some name.pth").read_bytes()
    item = Item("official.pth", hashlib.sha256(content).hexdigest(), len(content), "this test")
    model = TorchEncoder(RESNET, Holding("resnet18", "weights", (item,)), Options(width=1, home=home))
    monkeypatch.setenv("EXHUME_DATA_PATH", str(shelf))
    assert model.encode(GREY).shape == (2, 512)
    assert (home / "weights/resnet18/official.pth").read_bytes() == content
    same = replace(model, options=replace(model.options, weights=shelf / "some name.pth"))
    assert same.fingerprint == model.fingerprint


def test_stored_features_are_reproduced(given):
    """The official weights on a few images, against features that were computed elsewhere and stored as float16."""
    weights = given("resnet18-f37072fd.pth")
    given("features/mnist_resnet18_train.npz")
    try:
        images = load("mnist", os.environ.get("EXHUME_TEST_HOME"), download=False)
    except DataError:
        pytest.skip("EXHUME_TEST_HOME names no home folder with MNIST in it")
    stored = load_features("mnist", "resnet18", limit=8)
    assert stored.source == "EXHUME_DATA_PATH"
    features = build("resnet18", Options(width=784, weights=weights)).encode(images.train_images[:8])
    np.testing.assert_allclose(features, stored.train_features, rtol=1e-3, atol=2e-3)

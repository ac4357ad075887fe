"""The latent diffusion model, with an autoencoder of random weights: the real one needs a download."""

import numpy as np
import pytest

from exhume.decode import build, load, save
from exhume.decode._torch import available
from exhume.decode.latent import autoencoder
from exhume.decode.store import read_arrays
from exhume.errors import DataError, InputError
from tests.decode.conftest import needs_torch

pytestmark = needs_torch

if available():
    import torch

    from exhume.decode.latent.network import Condition, Shape
    from exhume.decode.latent.network import build as build_network
    from exhume.decode.latent.sampling import sample
    from exhume.decode.latent.training import AVERAGE, FLOOR, Pairs, Trainer, TrainingPlan, _share, averaging_weight

SMALL = {"steps": 6, "batch": 16, "width": 16, "draw_steps": 3}


class StoppedError(Exception):
    pass


def official(width=64, seed=0):
    """The official networks (taesd.py), written with torch's own layers: the oracle of ours."""
    nn = torch.nn

    def conv(a, b, **options):
        return nn.Conv2d(a, b, 3, padding=1, **options)

    class Block(nn.Module):
        def __init__(self, pooled=False):
            super().__init__()
            layers = (conv(width, width), nn.ReLU(), conv(width, width), nn.ReLU(), conv(width, width))
            self.conv = nn.Sequential(*layers)
            inner = 4 * width
            pool = (nn.Conv2d(width, inner, 1, bias=False), nn.GroupNorm(4, inner), nn.ReLU())
            self.pool = nn.Sequential(*pool, nn.Conv2d(inner, width, 1, bias=False)) if pooled else None

        def forward(self, x):
            x = x if self.pool is None else x + self.pool(x)
            return (self.conv(x) + x).relu()

    class Clamp(nn.Module):
        def forward(self, x):
            return torch.tanh(x / 3) * 3

    def down():
        return conv(width, width, stride=2, bias=False)

    def up():
        return nn.Upsample(scale_factor=2), conv(width, width, bias=False)

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        plain, pooled = (lambda: [Block() for _ in range(3)]), (lambda: [Block(True) for _ in range(3)])
        encoder = nn.Sequential(
            conv(3, width), Block(), down(), *plain(), down(), *plain(), down(), *pooled(), conv(width, 32)
        )
        decoder = nn.Sequential(
            Clamp(),
            conv(32, width),
            nn.ReLU(),
            *pooled(),
            *up(),
            *plain(),
            *up(),
            *plain(),
            *up(),
            Block(),
            conv(width, 3),
        )
    return encoder, decoder


@pytest.fixture
def taef2(monkeypatch):
    """An autoencoder of random weights in place of the fetched one."""
    encoder, decoder = official(width=8)
    with torch.no_grad():
        # Pictures that differ, and are not all black.
        decoder[-1].weight *= 30
        decoder[-1].bias += 0.5
    parts = tuple({name: tensor.detach() for name, tensor in net.state_dict().items()} for net in (encoder, decoder))
    monkeypatch.setattr(autoencoder, "load", lambda _home, _device="cpu": parts)
    return parts


def pairs(digits, rows=90):
    return digits.train_features[:rows], digits.images.train_images[:rows]


def test_the_autoencoder_is_the_official_one():
    encoder, decoder = official()
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    latents = encoder(images)
    assert latents.shape == (2, 32, 4, 4)
    torch.testing.assert_close(autoencoder.encode(dict(encoder.state_dict()), images), latents)
    torch.testing.assert_close(autoencoder.decode(dict(decoder.state_dict()), 5 * latents), decoder(5 * latents))


def test_an_autoencoder_that_is_not_the_known_one_is_not_loaded(home, monkeypatch, tmp_path):
    (tmp_path / "given").mkdir()
    torch.save({"0.weight": torch.zeros(1)}, tmp_path / "given" / "taef2_encoder.pth")
    monkeypatch.setenv("EXHUME_DATA_PATH", str(tmp_path / "given"))
    with pytest.raises(DataError, match=r"taef2_encoder.pth has SHA-256"):
        autoencoder.load.__wrapped__(home)


def test_an_interrupted_training_ends_at_the_same_weights(digits, taef2, tmp_path):
    whole = build("diffusion", **SMALL).fit(*pairs(digits), seed=5)
    checkpoint = tmp_path / "c.safetensors"

    def stop(step):
        if step.done in (2, 5) and step.resumed < step.done:
            raise StoppedError

    for expected in (0, 2):
        with pytest.raises(StoppedError):
            build("diffusion", checkpoint=checkpoint, **SMALL).fit(*pairs(digits), seed=5, tick=stop)
        assert checkpoint.is_file(), expected
    seen = []
    again = build("diffusion", checkpoint=checkpoint, **SMALL).fit(*pairs(digits), seed=5, tick=seen.append)
    assert [step.done for step in seen] == [6] and seen[0].resumed == 5
    assert again.record == whole.record
    assert whole.state.keys() == again.state.keys()
    assert all(np.array_equal(whole.state[name], again.state[name]) for name in whole.state)
    assert not any(path.name.startswith(".") for path in tmp_path.iterdir() if path.is_file()), "no half-written file"


def test_a_checkpoint_can_be_taken_as_it_is_and_the_training_still_goes_on(digits, taef2, tmp_path):
    checkpoint = tmp_path / "c.safetensors"
    options = {**SMALL, "checkpoint": checkpoint}
    with pytest.raises(DataError, match=r"there is no checkpoint at .* to take as it is"):
        build("diffusion", as_is=True, **options).fit(*pairs(digits))

    def stop(step):
        if step.done == 4:
            raise StoppedError

    with pytest.raises(StoppedError):
        build("diffusion", **options).fit(*pairs(digits), tick=stop)
    kept, part = checkpoint.read_bytes(), build("diffusion", as_is=True, **options).fit(*pairs(digits))
    arrays, _ = read_arrays(checkpoint)
    assert (part.record.steps, part.record.options["steps"]) == (4, 6) and [
        step for step, _ in part.record.history
    ] == [1, 2, 3, 4]
    for name, array in part.state.items():
        if name.startswith("network."):
            assert np.array_equal(array, arrays[f"average.module.{name.removeprefix('network.')}"])
    assert checkpoint.read_bytes() == kept
    on, whole = (build("diffusion", **o).fit(*pairs(digits)) for o in (options, SMALL))
    assert all(np.array_equal(on.state[name], whole.state[name]) for name in whole.state)


def test_an_interrupt_inside_a_step_leaves_the_last_whole_checkpoint(digits, taef2, tmp_path, monkeypatch):
    checkpoint = tmp_path / "c.safetensors"
    options = {**SMALL, "checkpoint": checkpoint}

    def stop(step):
        if step.done == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        build("diffusion", **options).fit(*pairs(digits), tick=stop)
    kept = checkpoint.read_bytes()
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        build("diffusion", **options).fit(*pairs(digits))
    assert checkpoint.read_bytes() == kept


@pytest.mark.parametrize("change", [{"steps": 7}, {"batch": 8}, {"width": 32}, {"seed": 1}, {"rows": 80}])
def test_a_checkpoint_of_another_training_is_refused(digits, taef2, tmp_path, change):
    options = {**SMALL, "checkpoint": tmp_path / "c.safetensors"}

    def stop(_step):
        raise StoppedError

    with pytest.raises(StoppedError):
        build("diffusion", **options).fit(*pairs(digits), tick=stop)
    seed, rows = change.pop("seed", 0), change.pop("rows", 90)
    with pytest.raises(DataError, match="is of another training"):
        build("diffusion", **{**options, **change}).fit(*pairs(digits, rows), seed=seed)


def test_training_learns_what_the_feature_says():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((200, 4)).astype(np.float32)
    latents = np.tanh(features @ rng.standard_normal((4, 32))).astype(np.float32)[..., None, None]
    known = Pairs(features, latents, np.zeros_like(latents))
    trainer = Trainer(
        Shape(dim=4, side=1, width=32, groups=4), TrainingPlan(steps=60, batch=64, rate=3e-3, warm_up=5), 0
    )
    before = trainer.held_out(known)
    losses = [trainer.step(known) for _ in range(60)]
    assert np.mean(losses[-10:]) < 0.9 * np.mean(losses[:10])
    assert trainer.held_out(known) == trainer.held_out(known) < before


def test_the_average_of_the_weights_warms_up():
    rng = np.random.default_rng(0)
    latents = rng.standard_normal((40, 32, 1, 1)).astype(np.float32)
    known = Pairs(rng.standard_normal((40, 4)).astype(np.float32), latents, np.zeros_like(latents))
    trainer = Trainer(Shape(dim=4, side=1, width=16, groups=4), TrainingPlan(steps=6, batch=16, warm_up=1), 0)
    name = "unet.conv_in.weight"
    average = None
    for step in range(6):
        trainer.step(known)
        weights = trainer.tensors()[f"net.{name}"].double().numpy()
        # The first weights are taken as they are; then the past counts 2/11, 3/12, 4/13, ...
        past = (1 + step) / (10 + step)
        average = weights if average is None else past * average + (1 - past) * weights
    found = trainer.net.state_dict()[name].double().numpy()
    # Each of five roundings to float32 is at most 2^-24 of a weight or two.
    assert np.allclose(found, average, rtol=0, atol=10 * 2**-24 * np.abs(average).max())
    assert np.abs(found - weights).max() > 1e3 * 2**-24


def test_a_long_training_averages_over_a_thousand_steps_and_a_short_one_forgets_its_start():
    assert averaging_weight(10**6) == AVERAGE == 0.999 and averaging_weight(8_990) == pytest.approx(AVERAGE)
    kept = np.prod([averaging_weight(step) for step in range(1, 1200)])
    assert kept < 1e-6 < 0.3 < AVERAGE**1199


def test_pictures_follow_the_generator_and_not_the_batch(digits, taef2, tmp_path, monkeypatch):
    decoder = build("diffusion", **SMALL).fit(*pairs(digits), encoder="random-relu")
    save(decoder, tmp_path / "d.safetensors")
    again = load(tmp_path / "d.safetensors", decoder="diffusion", encoder="random-relu")
    again.draw_steps = 3

    def drawn(of, seed=0):
        return of.decode(digits.test_features[:7], generator=np.random.default_rng(seed))

    first = drawn(decoder)
    assert first.shape == (7, 8, 8) and first.min() >= 0 and first.max() <= 1
    assert np.array_equal(first, drawn(again))
    assert not np.array_equal(first, drawn(decoder, seed=1))
    monkeypatch.setattr("exhume.decode.decoders.diffusion.BATCH", 3)
    assert np.allclose(first, drawn(decoder), atol=1e-5)


def test_the_mean_of_samples_is_their_mean(digits, taef2):
    decoder = build("diffusion", **SMALL).fit(*pairs(digits))
    features = digits.test_features[:4]
    decoder.samples = 2
    both = decoder.decode(features, generator=np.random.default_rng(0))
    decoder.samples = 1
    rng = np.random.default_rng(0)
    each = [decoder.decode(features, generator=rng) for _ in range(2)]
    assert np.allclose(both, np.mean(each, axis=0), atol=1e-5)


def test_a_device_that_is_not_there_is_refused_before_anything_is_fetched(digits):
    with pytest.raises(InputError, match="device must be one that torch can use here, such as cpu or cuda; got tpu9"):
        build("diffusion", device="tpu9", **SMALL).fit(*pairs(digits))


def test_weights_for_another_autoencoder_or_network_are_refused(digits, taef2):
    with pytest.raises(DataError, match="the autoencoder must be"):
        build("diffusion", autoencoder="0" * 64)
    decoder = build("diffusion", **SMALL).fit(*pairs(digits))
    decoder.width = 32
    with pytest.raises(DataError, match="not those of this network"):
        decoder.decode(digits.test_features[:1], generator=np.random.default_rng(0))


def test_guidance_moves_away_from_what_would_be_drawn_untold():
    """At guidance 1 the untold half counts for nothing; a network that heeds no condition draws the same at any."""
    torch.manual_seed(0)
    net = build_network(Shape(dim=4, side=1, width=16, groups=4)).eval()
    told = Condition(torch.randn(5, 4), torch.randn(5, 32, 1, 1))
    blank = told.kept(torch.zeros(5))
    noise = torch.randn(5, 32, 1, 1)

    def drawn(condition, guidance):
        return sample(net, condition, noise, steps=6, guidance=guidance)

    assert torch.allclose(drawn(blank, 1.0), drawn(blank, 5.0), atol=1e-5)
    torch.nn.init.normal_(net["unet"].conv_out.weight, std=0.1)
    plain, far, untold = drawn(told, 1.0), drawn(told, 2.0), drawn(told, 0.0)
    assert torch.allclose(untold, drawn(blank, 1.0), atol=1e-5)
    assert not torch.allclose(plain, untold, atol=1e-3)
    assert ((far - untold).flatten(1).norm(dim=1) > (plain - untold).flatten(1).norm(dim=1)).all()


def test_the_pull_brings_the_picture_nearer_to_the_feature():
    torch.manual_seed(0)
    net = build_network(Shape(dim=4, side=1, width=16, groups=4)).eval()
    wanted = torch.randn(5, 32, 1, 1)
    told = Condition(torch.zeros(5, 4), torch.zeros(5, 32, 1, 1))

    def mismatch(latents):
        return (latents - wanted).flatten(1).norm(dim=1)

    noise = torch.randn(5, 32, 1, 1)
    free, pulled = (
        sample(net, told, noise, steps=8, guidance=1.0, pull=pull, mismatch=mismatch) for pull in (0.0, 0.3)
    )
    assert (mismatch(pulled) < mismatch(free)).all()


def test_an_untrained_network_predicts_nothing_and_dropping_hides_the_feature():
    told = Condition(torch.ones(2, 4), torch.ones(2, 32, 1, 1))
    dropped = told.kept(torch.tensor([1.0, 0.0]))
    for part in ("features", "hint"):
        assert getattr(dropped, part)[0].eq(1).all() and getattr(dropped, part)[1].eq(0).all()
    net = build_network(Shape(dim=4, side=1, width=16, groups=4))
    assert net["unet"].conv_out.weight.eq(0).all() and net["unet"].conv_out.bias.eq(0).all()


def test_the_learning_rate_rises_and_falls_to_its_floor():
    plan = TrainingPlan(steps=1000, warm_up=100)
    shares = [_share(step, plan) for step in range(1001)]
    assert shares[0] == pytest.approx(0.01) and shares[99] == 1 == max(shares)
    assert shares[1000] == pytest.approx(FLOOR) and shares[550] == pytest.approx((1 + FLOOR) / 2)

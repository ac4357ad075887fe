"""`diffusion`: a latent diffusion model conditioned on features, trained on public images; the paper's second decoder.

It draws a plausible picture, not the record's: two seeds give two pictures, and what both share is what the feature
says. `samples` above 1 draws the mean of that many.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from exhume.data.files import digest_of, short
from exhume.data.home import home_folder
from exhume.data.sets import sha256_of_arrays
from exhume.decode._base import Array, Decoder, DecoderEntry, Examples, Learnt, Pixels, Tick
from exhume.decode._torch import EXTRA, Tensor, device_of, diffusers, torch
from exhume.decode.images import in_8_bits, in_shape
from exhume.decode.latent import autoencoder
from exhume.decode.latent.checkpoint import run
from exhume.decode.latent.network import WHAT, Condition, Shape, build
from exhume.decode.latent.sampling import Mismatch, sample
from exhume.decode.latent.training import CLAMP, Pairs, TrainingPlan
from exhume.decode.linear import Linear, Standard, crossed, fit_linear
from exhume.errors import DataError
from exhume.files import atomic_file

__all__ = ["DECODERS", "Diffusion"]

HELD_OUT = 30
"""One row in so many, the last ones, is never trained on: the loss that is reported is theirs."""

BATCH = 100
NETWORK = "network."
HINT = "hint."


@dataclass
class Diffusion(Decoder):
    """The model's size and training, and how it is drawn from.

    Attributes
    ----------
    steps, batch, rate, width
        Steps of training, images in each, learning rate, and channels of the network.
    autoencoder : str
        Hash of the autoencoder in whose latents it works; another one is refused.
    draw_steps, guidance, samples
        Denoising steps, classifier-free guidance, and how many samples a picture is the mean of.
    pull : float
        Above 0, sampling is guided by the frozen ResNet-18; see `exhume.decode.latent.sampling`.
    device, home, checkpoint
        Torch device, home folder, and the file that a training is resumed from.
    as_is : bool
        Whether `fit` takes the checkpoint's weights as they are, without another step.
    """

    name: ClassVar[str] = "diffusion"
    steps: int = 6000
    batch: int = 128
    rate: float = 8e-4
    width: int = 128
    autoencoder: str = autoencoder.HOLDING.sha256
    draw_steps: int = 16
    guidance: float = 2.0
    samples: int = 1
    pull: float = 0.0
    device: str = "cpu"
    home: Path | None = None
    checkpoint: Path | None = None
    as_is: bool = False

    def __post_init__(self) -> None:
        if self.autoencoder != autoencoder.HOLDING.sha256:
            raise DataError(f"the autoencoder must be {autoencoder.HOLDING.sha256}; got {self.autoencoder}")

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("steps", "batch", "rate", "width", "autoencoder")}

    def _fit(self, rows: Examples, seed: int, tick: Tick | None) -> Learnt:
        # Asked for first: without the extra or the device nothing needs to be fetched or computed.
        diffusers(WHAT)
        device_of(self.device, WHAT)
        held = max(1, len(rows.images) // HELD_OUT)
        standard, latents = Standard.of(rows.features[:-held]), self._latents(rows.images)
        flat = latents.reshape(len(rows.images), -1)
        linear = fit_linear(rows.features[:-held], flat[:-held])
        seen = crossed(rows.features[:-held], flat[:-held], linear.penalty, np.random.default_rng(seed))
        hints = np.concatenate([seen, linear(rows.features[-held:])]).reshape(latents.shape).astype(np.float32)
        pairs = [
            Pairs(*(part[which] for part in (standard(rows.features).astype(np.float32), latents, hints)))
            for which in (slice(None, -held), slice(-held, None))
        ]
        shape = self._shape(rows.features.shape[1], latents.shape[2])
        facts = {"data": rows.data, "seed": seed, **self._options()}
        trained = run(
            shape,
            TrainingPlan(self.steps, self.batch, self.rate),
            seed,
            pairs[0],
            pairs[1],
            facts,
            self.checkpoint,
            self.device,
            tick,
            self.as_is,
        )
        state = {f"{NETWORK}{name}": tensor.cpu().numpy() for name, tensor in trained.net.state_dict().items()}
        state |= {"centre": standard.centre, "spread": standard.spread}
        state |= {f"{HINT}{name}": array for name, array in linear.arrays().items()}
        return Learnt(state, trained.history[-1][1], trained.steps, trained.history)

    def _shape(self, dim: int, side: int) -> Shape:
        return Shape(dim, side, self.width, groups=min(16, self.width // 4))

    def _latents(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Latents of the pictures, cached in the home folder: they take minutes."""
        home = home_folder(self.home)
        key = digest_of({"images": sha256_of_arrays(images), "autoencoder": self.autoencoder})
        path = home / "latents" / f"taef2-{short(key)}.npy"
        if path.is_file():
            known: NDArray[np.float32] = np.load(path, allow_pickle=False)
            return known
        colour = in_8_bits(in_shape(images / 255.0, _seen(images.shape[1:])))
        weights, _ = autoencoder.load(home, self.device)
        latents = autoencoder.encode_all(weights, colour)
        with atomic_file(path) as stream:
            np.save(stream, latents)
        return latents

    def _decode(self, features: Array, labels: Array | None, generator: np.random.Generator) -> Pixels:
        module = torch(WHAT)
        record = self.record
        assert record is not None
        device = device_of(self.device, WHAT)
        seen = _seen(record.shape)
        side = seen[0] // autoencoder.DOWN
        net = self._net(record.dim, side, device)
        _, painter = autoencoder.load(home_folder(self.home), self.device)
        standard = Standard(self.state["centre"], self.state["spread"])
        told = np.clip(standard(features), -CLAMP, CLAMP).astype(np.float32)
        linear = Linear.of({n[len(HINT) :]: a for n, a in self.state.items() if n.startswith(HINT)})
        hints = linear(features).reshape(len(features), autoencoder.CHANNELS, side, side).astype(np.float32)
        # All noise is drawn before any batch, so that a picture does not depend on how the work is cut.
        noises = generator.standard_normal((self.samples, *hints.shape), np.float32)
        pictures = np.zeros((len(features), *seen))
        for start in range(0, len(features), BATCH):
            part = slice(start, start + BATCH)
            put = [module.from_numpy(array[part]).to(device) for array in (told, hints)]
            condition = Condition(put[0], put[1])
            mismatch = self._mismatch(painter, features[part]) if self.pull > 0 else None
            for noise in noises:
                start_at = module.from_numpy(noise[part]).to(device)
                latents = sample(
                    net,
                    condition,
                    start_at,
                    steps=self.draw_steps,
                    guidance=self.guidance,
                    pull=self.pull,
                    mismatch=mismatch,
                )
                with module.inference_mode():
                    drawn = autoencoder.decode(painter, latents).clamp(0, 1)
                pictures[part] += drawn.permute(0, 2, 3, 1).cpu().numpy() / self.samples
        return in_shape(pictures, record.shape).reshape(len(features), -1)

    def _net(self, dim: int, side: int, device: Any) -> Any:
        module = torch(WHAT)
        net = build(self._shape(dim, side))
        tensors = {
            n[len(NETWORK) :]: module.from_numpy(a.copy()) for n, a in self.state.items() if n.startswith(NETWORK)
        }
        try:
            net.load_state_dict(tensors)
        except RuntimeError as error:
            raise DataError(f"the weights are not those of this network: {str(error).splitlines()[0]}") from error
        return net.to(device).eval()

    def _mismatch(self, painter: dict[str, Tensor], features: Array) -> Mismatch:
        from exhume.decode.latent.mismatch import resnet18_mismatch

        return resnet18_mismatch(painter, features, home_folder(self.home), self.device)


def _seen(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Shape in which the autoencoder sees pictures: square, in colour, of a side that it can halve three times."""
    side = autoencoder.DOWN * -(-max(shape[:2]) // autoencoder.DOWN)
    return side, side, 3


DECODERS = (
    DecoderEntry(
        "diffusion", "latent diffusion conditioned on the feature, trained on public images", Diffusion, EXTRA
    ),
)

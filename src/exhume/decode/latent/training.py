"""Training of the denoiser, step by step, so that it can be stopped anywhere and goes on to the same weights.

What is random in a step is drawn from the seed and the step's number alone. A checkpoint therefore holds the weights,
their running average and the optimiser's moments, and nothing of a random generator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exhume.decode._torch import Tensor, device_of, torch
from exhume.decode.latent.network import TIMES, WHAT, Condition, Shape, build, predict, schedule

__all__ = ["Pairs", "Trainer", "TrainingPlan", "averaging_weight"]

CLAMP = 5.0
FEATURE_NOISE = 0.15
DROPPED = 0.1
BETAS = (0.9, 0.99)
WEIGHT_DECAY = 0.02
FLOOR = 0.03
"""Share of the learning rate that is left at the end."""
AVERAGE = 0.999
"""Weight of the past in the running average of the weights, once `averaging_weight` has risen to it."""
CLIP = 1.0
HELD_OUT_SEED = 1 << 20

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class TrainingPlan:
    """How long and how fast to train."""

    steps: int = 6000
    batch: int = 128
    rate: float = 8e-4
    warm_up: int = 200


@dataclass(frozen=True, eq=False)
class Pairs:
    """Standardised features, the latents of their pictures, and the latents that ridge regression predicts."""

    features: Floats
    latents: Floats
    hints: Floats


class Trainer:
    """The denoiser under training: `step` it, save `tensors`, `restore` them, read the averaged weights off `net`."""

    def __init__(self, shape: Shape, plan: TrainingPlan, seed: int, device: str = "cpu") -> None:
        module = torch(WHAT)
        self.plan, self.seed, self.done = plan, seed, 0
        self.whole = True
        """False while a step is under way: what an interrupt leaves then is a mixture of two."""
        self._device = device_of(device, WHAT)
        with module.random.fork_rng(devices=[]):
            module.manual_seed(seed)
            self._net = build(shape).to(self._device)
        averaging = module.optim.swa_utils
        self._average = averaging.AveragedModel(self._net, multi_avg_fn=self._averaged)
        self._optimiser = module.optim.AdamW(
            self._net.parameters(), lr=plan.rate, betas=BETAS, weight_decay=WEIGHT_DECAY
        )
        self._schedule = schedule("DDPMScheduler")

    @property
    def net(self) -> Any:
        """The network with averaged weights."""
        return self._average.module

    def step(self, pairs: Pairs) -> float:
        """Take one step; return its loss."""
        module, plan = torch(WHAT), self.plan
        rng = np.random.default_rng([self.seed, self.done])
        rows = rng.choice(len(pairs.features), plan.batch, replace=plan.batch > len(pairs.features))
        keep = rng.random(plan.batch) >= DROPPED
        for group in self._optimiser.param_groups:
            group["lr"] = plan.rate * _share(self.done, plan)
        self.whole = False
        with steady():
            self._optimiser.zero_grad(set_to_none=True)
            loss = self._loss(self._net, pairs, rows, rng, FEATURE_NOISE, keep)
            loss.backward()
            module.nn.utils.clip_grad_norm_(self._net.parameters(), CLIP)
            self._optimiser.step()
            self._average.update_parameters(self._net)
        self.done, self.whole = self.done + 1, True
        return float(loss.detach())

    def held_out(self, pairs: Pairs, batch: int = 256) -> float:
        """Return the averaged network's loss on rows it was not trained on, at the same times and noises each time."""
        module = torch(WHAT)
        rng = np.random.default_rng([self.seed, HELD_OUT_SEED])
        total = 0.0
        with module.inference_mode(), steady():
            for start in range(0, len(pairs.features), batch):
                rows = np.arange(start, min(start + batch, len(pairs.features)))
                told = np.ones(len(rows), bool)
                total += len(rows) * float(self._loss(self.net, pairs, rows, rng, 0.0, told))
        return total / len(pairs.features)

    def _loss(
        self,
        net: Any,
        pairs: Pairs,
        rows: NDArray[np.intp],
        rng: np.random.Generator,
        feature_noise: float,
        keep: NDArray[np.bool_],
    ) -> Tensor:
        clean, features = pairs.latents[rows], pairs.features[rows]
        features = np.clip(features + feature_noise * rng.standard_normal(features.shape, np.float32), -CLAMP, CLAMP)
        # One time in each of as many equal parts as there are rows: the loss varies less than with free draws.
        times = ((rng.permutation(len(rows)) + rng.random(len(rows))) * (TIMES / len(rows))).astype(np.int64)
        noise = rng.standard_normal(clean.shape, np.float32)
        latents, noises, at = self._put(clean), self._put(noise), self._put(times)
        told = Condition(self._put(features), self._put(pairs.hints[rows]))
        noisy = self._schedule.add_noise(latents, noises, at)
        wanted = self._schedule.get_velocity(latents, noises, at)
        guess = predict(net, noisy, at, told.kept(self._put(keep.astype(np.float32))))
        return torch(WHAT).nn.functional.mse_loss(guess, wanted)

    def _averaged(self, average: list[Tensor], current: list[Tensor], _: Any) -> None:
        for held, new in zip(average, current, strict=True):
            if held.is_floating_point():
                held.lerp_(new, 1 - averaging_weight(self.done))
            else:
                held.copy_(new)

    def _put(self, array: NDArray[Any]) -> Tensor:
        return torch(WHAT).from_numpy(np.ascontiguousarray(array)).to(self._device)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that the next step depends on, by name."""
        found = {f"net.{name}": tensor for name, tensor in self._net.state_dict().items()}
        found |= {f"average.{name}": tensor for name, tensor in self._average.state_dict().items()}
        for index, moments in self._optimiser.state_dict()["state"].items():
            found |= {f"adam.{index}.{name}": tensor for name, tensor in moments.items()}
        return {name: tensor.detach().cpu().contiguous() for name, tensor in found.items()}

    def restore(self, tensors: dict[str, Tensor], done: int) -> None:
        """Go back to where `tensors` were taken, after so many steps."""
        self._net.load_state_dict(_part(tensors, "net."))
        self._average.load_state_dict(_part(tensors, "average."))
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _part(tensors, "adam.").items():
            index, _, kind = name.partition(".")
            moments.setdefault(int(index), {})[kind] = tensor
        groups = self._optimiser.state_dict()["param_groups"]
        self._optimiser.load_state_dict({"state": moments, "param_groups": groups})
        self.done = done


@contextmanager
def steady() -> Iterator[None]:
    """Keep CUDA to algorithms and a precision that do not depend on the run."""
    with torch(WHAT).backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        yield


def _share(step: int, plan: TrainingPlan) -> float:
    """Share of the learning rate at a step: a linear start, then half a cosine down to the floor."""
    if step < plan.warm_up:
        return (step + 1) / plan.warm_up
    way = (step - plan.warm_up) / max(plan.steps - plan.warm_up, 1)
    return FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * min(way, 1.0)))


def averaging_weight(step: int) -> float:
    """Weight of the past in the average at a step: small at first, so that a short training forgets its start."""
    return min(AVERAGE, (1 + step) / (10 + step))


def _part(tensors: dict[str, Tensor], start: str) -> dict[str, Tensor]:
    return {name[len(start) :]: tensor for name, tensor in tensors.items() if name.startswith(start)}

"""A training run with checkpoints: written whole or not at all, and continued only by the training they belong to."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exhume.decode._base import Tick, TrainingStep
from exhume.decode._torch import torch
from exhume.decode.latent.network import WHAT, Shape
from exhume.decode.latent.training import Pairs, Trainer, TrainingPlan
from exhume.decode.store import read_arrays, write_arrays
from exhume.errors import DataError

__all__ = ["Trained", "run"]

EVERY = 60.0
"""Seconds between checkpoints."""

LOOKS = 24
"""How often in a training the loss on held-out rows is measured."""

History = tuple[tuple[int, float], ...]


@dataclass(frozen=True, eq=False)
class Trained:
    """The averaged network, the losses on held-out rows, and the steps that led there."""

    net: Any
    history: History
    steps: int


def run(
    shape: Shape,
    plan: TrainingPlan,
    seed: int,
    pairs: Pairs,
    held_out: Pairs,
    facts: Mapping[str, Any],
    checkpoint: Path | None,
    device: str,
    tick: Tick | None,
    as_is: bool = False,
) -> Trained:
    """Train, from the checkpoint if there is one.

    A run that ends early between two steps leaves a checkpoint of the last; in the middle of one, the older stays.

    Parameters
    ----------
    facts
        What the training is; a checkpoint of another one is refused.
    as_is
        Take no step: return what the checkpoint has.

    Raises
    ------
    DataError
        If the checkpoint is damaged or of another training, or missing where it is all that is wanted.
    """
    trainer = Trainer(shape, plan, seed, device)
    history = _resume(trainer, facts, checkpoint)
    if as_is:
        if not trainer.done:
            raise DataError(f"there is no checkpoint at {checkpoint} to take as it is: train first")
        if not history or history[-1][0] < trainer.done:
            history = (*history, (trainer.done, trainer.held_out(held_out)))
        return Trained(trainer.net, history, trainer.done)
    resumed, saved = trainer.done, time.monotonic()
    every = max(1, plan.steps // LOOKS)
    try:
        while trainer.done < plan.steps:
            loss = trainer.step(pairs)
            if trainer.done % every == 0 or trainer.done == plan.steps:
                history = (*history, (trainer.done, trainer.held_out(held_out)))
            if checkpoint is not None and time.monotonic() - saved > EVERY:
                _save(trainer, facts, history, checkpoint)
                saved = time.monotonic()
            if tick is not None:
                seen = history[-1][1] if history else None
                tick(TrainingStep(trainer.done, resumed, plan.steps, plan.batch, loss, seen))
    finally:
        if checkpoint is not None and trainer.whole and trainer.done > resumed:
            _save(trainer, facts, history, checkpoint)
    return Trained(trainer.net, history, trainer.done)


def _save(trainer: Trainer, facts: Mapping[str, Any], history: History, path: Path) -> None:
    arrays = {name: tensor.numpy() for name, tensor in trainer.tensors().items()}
    write_arrays(path, arrays, {"training": dict(facts), "done": trainer.done, "history": history})


def _resume(trainer: Trainer, facts: Mapping[str, Any], path: Path | None) -> History:
    if path is None or not path.exists():
        return ()
    arrays, found = read_arrays(path)
    if found.get("training") != dict(facts):
        raise DataError(f"the checkpoint {path} is of another training; remove it or name another file")
    module = torch(WHAT)
    trainer.restore({name: module.from_numpy(array.copy()) for name, array in arrays.items()}, int(found["done"]))
    return tuple((int(step), float(loss)) for step, loss in found["history"])

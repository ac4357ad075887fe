"""The threat model in force, in plain words: what the attacker knows, sends and sees."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from exhume.attack import estimate, probes, recover
from exhume.audit.settings import DEFAULT_DIM, Settings
from exhume.defence.config import Config
from exhume.simulate import attackers
from exhume.simulate.rules import HARDENED, in_words, name_of, resolve

__all__ = ["explain"]

_DELETIONS = {
    "record": "one record of an honest client",
    "class": "all records of one class",
    "client": "all records of one honest client",
}


def explain(
    settings: Settings, dim: int | None = None, classes: int | None = None, defence: Config | None = None
) -> str:
    """Describe the attacker, the server and the event of an audit with these settings.

    Parameters
    ----------
    settings
        What the audit does.
    dim, classes
        The sizes of its data, once they are known.
    defence
        The operator's own settings, once they are made for these sizes.
    """
    least = "ceil(d/c)" if dim is None or classes is None else f"ceil({dim}/{classes}) = {math.ceil(dim / classes)}"
    deletions = "\n".join(f"    - {name}: {_DELETIONS[name]}" for name in settings.kind)
    return f"""\
Threat model of this audit

The records are {settings.data} under the encoder {settings.encoder}.
The server keeps S = sum of f f' and G = sum of f y' over the retained records of {settings.clients} clients and
{_server(settings, defence)}

The attacker is one of the clients.
  Knows: the frozen encoder, its own records, the messages it sent, the number of features and classes.
         Not the ridge coefficient gamma, nor anything of the other clients.
  Sends: well-formed updates, as every client may:
{_list(settings.probe, probes.REGISTRY, scale=settings.scale)}
         Each sequence is cancelled at its end; at the very end the recovered block is replayed.
  Sees:  every broadcast head. It needs at least {least} responses to identify one state (Corollary 1).
  Reads: the hidden state from these responses:
{_list([settings.estimator], estimate.REGISTRY)}
         what was deleted, from the state before and what it sees after:
{_list(settings.recovery, recover.REGISTRY)}

The event is exactly one honest deletion:
{deletions}

The quiet interval: the audit plays each probe sequence while nobody else updates the server, as the paper does.
A quiet interval is not needed: an attacker that watches every broadcast reads other people's changes along with
the state, up to as many records a broadcast as there are classes (`exhume advise` plays it: stitched).

The evaluator (this program) reads the hidden ledger only to carry out the deletion and to score the outcome."""


def _list(names: Iterable[str], registry: Mapping[str, Any], **values: object) -> str:
    """List registered things, each with what it says about itself."""
    return "\n".join(f"    - {name}: {registry[name].about.format(**values)}" for name in names)


def _server(settings: Settings, defence: Config | None) -> str:
    """Say what the server releases and refuses."""
    heads = " or ".join(settings.precision)
    if settings.defence is None:
        return f"""\
broadcasts the ridge head W = (S + gamma I)^-1 G, complete, after every accepted update, as {heads}.
Its ledger and its solves stay float64. It does not check who owns a record, and accepts the same record twice."""
    sizes = defence is not None or settings.defence != HARDENED
    config = defence or resolve(settings.defence, settings.width or DEFAULT_DIM, None)
    rules = [
        f"    - {stage}: {rule}{f' ({options})' if options and sizes else ''}"
        for stage, rule, options in in_words(config)
    ]
    return "\n".join(
        [
            "solves the ridge head W = (S + gamma I)^-1 G in float64. What it accepts and lets out is decided by the",
            f"settings {name_of(settings.defence)}:",
            *(rules or ["    - no rule at all: every message is accepted and every head released in float64"]),
            "Secrets that the settings leave open follow from the audit's seed. All clients, the attacker too, have",
            "uploaded their rows through these rules before the attack. The same attacks are run on the bare server,",
            f"which checks nothing and releases {heads} heads.",
            "The attacker of these probes skips what is refused, and takes a withheld head for no answer. Besides it,",
            "attackers that know the settings are played: they scale down, split, wait, average and guess.",
            _list(settings.attackers, attackers.REGISTRY),
        ]
    )

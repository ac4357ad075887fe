"""The defences of the matrix by name: how each server is built, and what its clients and attackers know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from exhume.audit.advise.setting import Setting
from exhume.defence.admission import Norm, Slack
from exhume.defence.calibration import sigma_within
from exhume.defence.config import Config, Entry, build
from exhume.defence.default import hardened_config, sigma_for
from exhume.defence.detector import Detector, Log
from exhume.errors import unknown_name
from exhume.protocol import Ledger, Server, Summary, Update

__all__ = ["DEFENCES", "Context", "Defence", "defence", "honest_blocks", "honest_logs"]

SEED = 20260
"""The secret of all sketches in the matrix."""

NOISE_KEY = "00112233445566778899aabbccddeeff"
"""The secret of all noise in the matrix, fixed so that a run can be repeated."""


@dataclass(frozen=True, eq=False)
class Context:
    """What an operator has when it sets its server up."""

    setting: Setting
    keys: dict[str, bytes] = field(default_factory=dict)
    colluders: int = 1

    @property
    def sigma(self) -> float:
        """Noise that the accuracy bears, measured on the operator's rows with everybody's data in the ledger."""
        return _sigma(self.setting)

    @property
    def size(self) -> tuple[int, int]:
        """Feature dimensions and classes."""
        return self.setting.d, self.setting.classes


def honest_blocks(setting: Setting, count: int = 320) -> Iterator[Summary]:
    """Yield blocks of honest batches of the calibration rows: one row to all of them, sizes even on a log scale."""
    rng = np.random.default_rng([setting.seed, 11])
    most = len(setting.calibration)
    for size in np.exp(rng.uniform(0, np.log(most + 1), count)).astype(int):
        yield setting.summary(rng.choice(setting.calibration, min(max(size, 1), most), replace=False))


def honest_logs(setting: Setting, logs: int = 16, clients: int = 8, seed: int = 12) -> Iterator[Log]:
    """Yield honest servers' traffic: an upload in a few messages, later additions, deletions of a few rows."""
    rng = np.random.default_rng([setting.seed, seed])
    # Clients differ in size: from half the smallest honest one to the largest client there is.
    sizes = [len(part) for part in (*setting.honest, setting.own)]
    upload = (0.5 * min(sizes), float(max(sizes)))
    for _ in range(logs):
        plans = [list(_one_client(setting, upload, rng)) for _ in range(clients)]
        log: list[tuple[str, Update]] = []
        while any(plans):
            able = [k for k, plan in enumerate(plans) if plan]
            k = int(rng.choice(able))
            log.append((f"client {k}", plans[k].pop(0)))
        yield log


def _one_client(setting: Setting, upload: tuple[float, float], rng: np.random.Generator) -> Iterator[Update]:
    pool = rng.permutation(setting.calibration)
    size = int(np.exp(rng.uniform(*np.log(np.maximum(upload, 4.0)))))
    mine = pool[: min(size, len(pool) * 2 // 3)]
    spare = pool[len(mine) :]
    for batch in np.array_split(mine, 3):
        if len(batch):
            yield Update.adding(setting.summary(batch))
    held = list(mine)
    for _ in range(int(rng.integers(0, 10))):
        if rng.random() < 0.6 and len(spare):
            batch, spare = spare[: rng.integers(1, 4)], spare[4:]
            if len(batch):
                held += list(batch)
                yield Update.adding(setting.summary(batch))
        else:
            out = [held.pop(int(rng.integers(len(held)))) for _ in range(min(int(rng.integers(1, 4)), len(held) - 1))]
            if out:
                yield Update.deleting(setting.summary(np.array(out)))


@lru_cache(maxsize=2)
def _sigma(setting: Setting) -> float:
    rows = setting.calibration
    held = np.concatenate([*setting.honest, setting.own])
    ledger = Ledger(setting.summary(held), setting.gamma)
    found = sigma_within(ledger, setting.features[rows], setting.labels[rows], setting.points, seed=setting.seed)
    # A sample that happens to bear much noise proves little: never more than the rule of thumb.
    return min(found, sigma_for(len(held), setting.d))


@lru_cache(maxsize=2)
def _norm(setting: Setting) -> Entry:
    made = Norm.calibrated(honest_blocks(setting), rate=0.0, slack=2.0)
    return Entry.of("norm", thresholds={str(k): t for k, t in made.thresholds.items()})


@lru_cache(maxsize=2)
def _detector(setting: Setting) -> Entry:
    made = Detector.calibrated(honest_logs(setting), rate=0.02, seed=SEED)
    return Entry.of("detector", **made.options(), seed=SEED)


def _least_norm(x: Context) -> float:
    return Slack.measure(x.setting.features[x.setting.calibration])


RULES: dict[str, Callable[[Context], Entry]] = {
    "origin": lambda x: Entry.of("origin", keys={name: key.decode() for name, key in x.keys.items()}),
    "duplicates": lambda x: Entry.of("duplicates", seed=SEED),
    "positive": lambda x: Entry.of("positive"),
    "norm": lambda x: _norm(x.setting),
    "ownership": lambda x: Entry.of("ownership", seed=SEED),
    "ownership-rows": lambda x: Entry.of("ownership", seed=SEED, rows=True),
    "slack": lambda x: Entry.of("slack", least_norm=_least_norm(x)),
    "replay": lambda x: Entry.of("replay", seed=SEED),
    "minimum-rows": lambda x: Entry.of("minimum_rows", rows=8),
    "detector": lambda x: _detector(x.setting),
}

RELEASES: dict[str, Callable[[Context], Entry]] = {
    "float32": lambda x: Entry.of("heads", precision="float32"),
    "float16": lambda x: Entry.of("heads", precision="float16"),
    "isotropic": lambda x: Entry.of("isotropic_noise", sigma=1e-3, key=NOISE_KEY),
    "posterior-0.02": lambda x: Entry.of("posterior_noise", sigma=0.02, key=NOISE_KEY),
    "posterior": lambda x: Entry.of("posterior_noise", sigma=x.sigma, key=NOISE_KEY),
    "mask": lambda x: Entry.of("deletion_mask", sigma=x.sigma, collusion=x.colluders, key=NOISE_KEY),
    "privacy-budget": lambda x: Entry.of("privacy_budget", sigma=x.sigma, mu=2.0, collusion=x.colluders),
    "every-8": lambda x: Entry.of("every", changes=8),
    "clients-3": lambda x: Entry.of("min_clients", clients=3),
    "budget": lambda x: Entry.of("response_budget", responses=max(x.size[0] // x.size[1] // 2, 1)),
}

SECRETS = ("key", "keys", "seed")
"""Options that are fixed in the matrix so that a run can be repeated, and never go into a recommendation."""


@dataclass(frozen=True)
class Defence:
    """One way to set a server up, made of admission rules and release rules by name."""

    name: str
    about: str
    admission: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    accountant: bool = False
    show_rows: bool = False
    """Whether the default has clients show their rows."""
    hardened: bool = False
    """Whether this is the default of `exhume.hardened`; the names of rules then stay empty."""

    @property
    def itemised(self) -> bool:
        """Whether clients must show their rows."""
        return self.show_rows or "ownership-rows" in self.admission

    @property
    def signed(self) -> bool:
        """Whether clients must tag their messages."""
        return "origin" in self.admission

    @property
    def exact(self) -> bool:
        """Whether heads come out unrounded and without noise, which the attacker knows and builds on."""
        return not self.hardened and not set(self.release) & INEXACT

    @property
    def gated(self) -> bool:
        """Whether heads may be withheld."""
        return self.hardened or self.accountant or bool(set(self.release) & GATES)

    @property
    def counts_changes(self) -> bool:
        """Whether enough changes of anybody's bring a head, so that an attacker can bring it about alone."""
        return "every-8" in self.release

    def config(self, context: Context) -> Config:
        """Return the configuration that a server loads."""
        if self.hardened:
            return hardened_config(
                context.setting.d,
                sigma=context.sigma,
                collusion=context.colluders,
                least_norm=_least_norm(context),
                thresholds=_norm(context.setting).options["thresholds"],
                show_rows=self.show_rows,
                key=NOISE_KEY,
            )
        return Config(
            admission=tuple(RULES[name](context) for name in self.admission),
            release=tuple(RELEASES[name](context) for name in self.release),
            accountant=Entry.of("identification", margin=max(context.setting.d // 4, 1), coalition=context.colluders)
            if self.accountant
            else None,
        )

    def advice(self, context: Context) -> Config:
        """Return the configuration without the secrets of the matrix; a server draws its own."""
        full = self.config(context)
        return full.model_copy(
            update={
                "admission": tuple(_public(entry) for entry in full.admission if entry.rule != "origin"),
                "release": tuple(_public(entry) for entry in full.release),
            }
        )

    def build(self, context: Context, ledger: Ledger) -> Server:
        """Make the server."""
        return build(self.config(context), ledger).server(ledger)


GATES = {"every-8", "clients-3", "budget", "privacy-budget"}
INEXACT = {"float32", "float16", "isotropic", "posterior-0.02", "posterior", "mask"}


def _public(entry: Entry) -> Entry:
    return Entry.of(entry.rule, **{k: v for k, v in entry.options.items() if k not in SECRETS})


def _all() -> Iterator[Defence]:
    yield Defence("none", "the paper's server: every head in float64, nothing refused")
    abouts = {
        "origin": "messages are authenticated per client",
        "duplicates": "no block twice, up to sign and scale; no mirrored pairs",
        "positive": "grams positive semidefinite, moments in their span",
        "norm": "blocks no larger than twice the largest honest one of as many rows",
        "ownership": "deletions are sums of the client's own earlier messages",
        "ownership-rows": "deletions are rows that the client has shown before",
        "slack": "what a client has left must be what some rows can make",
        "replay": "no addition near somebody else's deletion",
        "minimum-rows": "deletions of at least 8 rows",
        "detector": "sequences calibrated at 2% false positives",
    }
    for name, about in abouts.items():
        yield Defence(name, about, (name,))
    yield Defence("float32", "heads in float32", (), ("float32",))
    yield Defence("float16", "heads in float16", (), ("float16",))
    yield Defence("isotropic", "Gaussian noise 1e-3 on every entry", (), ("isotropic",))
    yield Defence("posterior-0.02", "posterior-shaped noise, sigma 0.02", (), ("posterior-0.02",))
    yield Defence("posterior", "posterior-shaped noise as the accuracy bears", (), ("posterior",))
    yield Defence(
        "posterior+budget",
        "the same; at most mu 2 in the quiet run after a deletion",
        (),
        ("posterior", "privacy-budget"),
    )
    yield Defence("mask", "masked totals: one draw per deletion, as the accuracy bears", (), ("mask",))
    yield Defence("every-8", "one head per 8 accepted changes", (), ("every-8",))
    yield Defence("clients-3", "one head per 3 distinct clients", (), ("clients-3",))
    yield Defence("budget", "half the responses that identification needs, per client", (), ("budget",))
    yield Defence("accountant", "heads withheld a quarter of d short of identification", accountant=True)
    rules = ("origin", "positive", "norm", "duplicates", "slack", "replay")
    yield Defence("admission", "all admission rules that refuse no honest message", rules)
    yield Defence("admission+detector", "the same with the sequence detector", (*rules, "detector"))
    yield Defence("admission+float32", "admission rules, heads in float32", rules, ("float32",))
    yield Defence("admission+clients-3", "admission rules, one head per 3 clients", rules, ("clients-3",))
    yield Defence(
        "rows+minimum", "row ownership, deletions of at least 8 rows", ("origin", "ownership-rows", "minimum-rows")
    )
    yield Defence(
        "rows+replay",
        "row ownership, no row near a deleted one of somebody else",
        ("origin", "ownership-rows", "replay"),
    )
    yield Defence("admission+posterior", "admission rules, posterior noise", rules, ("posterior",))
    yield Defence("admission+mask", "admission rules, masked totals", rules, ("mask",))
    yield Defence(
        "admission+posterior+every-8",
        "admission rules, posterior noise, one head per 8 changes",
        rules,
        ("every-8", "posterior"),
    )
    yield Defence("hardened", "the default of exhume.hardened, calibrated", hardened=True)
    yield Defence("hardened+rows", "the same; clients show rows", hardened=True, show_rows=True)


DEFENCES: dict[str, Defence] = {made.name: made for made in _all()}


def defence(name: str) -> Defence:
    """Return a defence by its name."""
    if name not in DEFENCES:
        raise unknown_name("defence", name, DEFENCES)
    return DEFENCES[name]

"""The defences of the matrix by name: every rule alone, and the combinations that an operator would run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from exhume.advise.calibrated import (
    NOISE_KEY,
    Context,
    RuleOptions,
    entry_of,
    known_rules,
    least_norm,
)
from exhume.defence import accountants, admission, release
from exhume.defence.config import Config, Entry
from exhume.defence.default import hardened_config
from exhume.errors import InputError, unknown_name
from exhume.options import is_secret
from exhume.registry import spelt
from exhume.simulate.rules import bounds_of, uploads_of

__all__ = ["DEFENCES", "Defence", "defence", "defences"]


def _rule(name: str, **options: Any) -> RuleOptions:
    return name, options


@dataclass(frozen=True)
class Defence:
    """One way to set a server up, made of admission rules and release rules by name."""

    name: str
    about: str
    admission: tuple[RuleOptions, ...] = ()
    release: tuple[RuleOptions, ...] = ()
    accountant: RuleOptions | None = None
    hardened: bool = False
    """Whether this is the default of `exhume.hardened`; the names of rules then stay empty."""
    show_rows: bool = True
    """Whether clients of the default show their rows."""
    keep_totals: bool = False
    """Whether the default keeps every client's totals, where rows are not shown; else messages go as they came."""
    quick: bool = False
    """Whether a quick matrix has it."""

    def config(self, context: Context) -> Config:
        """Return the configuration that a server loads."""
        scenario = context.scenario
        if self.hardened:
            return hardened_config(
                scenario.d,
                bounds=bounds_of(scenario),
                rows=sum(map(len, scenario.parts)),
                sigma=context.sigma,
                founding=uploads_of(scenario),
                least_norm=least_norm(scenario),
                show_rows=self.show_rows,
                keep_totals=self.keep_totals,
                key=NOISE_KEY,
            )
        return Config(
            admission=tuple(entry_of(admission.REGISTRY, rule, context) for rule in self.admission),
            release=tuple(entry_of(release.REGISTRY, rule, context) for rule in self.release),
            accountant=None if self.accountant is None else entry_of(accountants.REGISTRY, self.accountant, context),
        )

    def advice(self, context: Context) -> Config:
        """Return the configuration without the secrets of the matrix; a server draws its own."""
        full = self.config(context)
        return full.model_copy(
            update={
                "admission": tuple(_public(entry) for entry in full.admission if entry.rule != "signed-messages"),
                "release": tuple(_public(entry) for entry in full.release),
                "accountant": None if full.accountant is None else _public(full.accountant),
            }
        )


def _public(entry: Entry) -> Entry:
    return Entry.of(entry.rule, **{k: v for k, v in entry.options.items() if not is_secret(k)})


QUICK = ("detector", "algebraic-ownership", "min-clients", "posterior-noise")


def _single_rules() -> Iterator[Defence]:
    for name in known_rules(admission.REGISTRY):
        yield Defence(name, admission.REGISTRY[name].about, (_rule(name),), quick=name in QUICK)
    for name in known_rules(release.REGISTRY):
        if name != "heads":
            yield Defence(name, release.REGISTRY[name].about, (), (_rule(name),), quick=name in QUICK)
    for name in known_rules(accountants.REGISTRY):
        yield Defence(name, accountants.REGISTRY[name].about, accountant=_rule(name))


def _combinations() -> Iterator[Defence]:
    signed, by_rows = _rule("signed-messages"), _rule("ownership", show_rows=True)
    noise, budget, mask = _rule("posterior-noise"), _rule("privacy-budget"), _rule("deletion-mask")
    every, three = _rule("every-k-changes"), _rule("min-clients")
    rounded = _rule("heads", precision="float32")
    yield Defence("none", "the paper's server: every head in float64, nothing refused", quick=True)
    yield Defence("ownership+rows", "deletions are rows that the client has shown before", (by_rows,))
    yield Defence("float32", "heads in float32", (), (rounded,), quick=True)
    yield Defence("float16", "heads in float16", (), (_rule("heads", precision="float16"),))
    yield Defence("faint-noise", "posterior-shaped noise, sigma 0.02", (), (_rule("posterior-noise", sigma=0.02),))
    yield Defence(
        "noise+budget", "posterior noise; at most mu 2 in the quiet run after a deletion", (), (noise, budget)
    )
    names = ("signed-messages", "positive-semidefinite", "norm-limit", "duplicates", "algebraic-ownership", "replay")
    rules = tuple(map(_rule, names))
    yield Defence("admission", "all admission rules that refuse no honest message", rules, quick=True)
    yield Defence("admission+detector", "the same with the sequence detector", (*rules, _rule("detector")))
    yield Defence("admission+float32", "admission rules, heads in float32", rules, (rounded,))
    yield Defence("admission+clients", "admission rules, one head per 3 clients", rules, (three,))
    minimum = _rule("minimum-rows")
    yield Defence("rows+minimum", "row ownership, deletions of at least 8 rows", (signed, by_rows, minimum))
    replay = _rule("replay")
    yield Defence("rows+replay", "row ownership, no row near somebody else's deleted one", (signed, by_rows, replay))
    yield Defence("admission+noise", "admission rules, posterior noise", rules, (noise,))
    yield Defence("admission+mask", "admission rules, masked totals", rules, (mask,))
    yield Defence("admission+noise+every", "admission rules, noise, one head per 8 changes", rules, (every, noise))
    yield Defence("hardened", "the default of exhume.hardened, calibrated", hardened=True, quick=True)
    sums = "the same; clients show sums alone"
    yield Defence("hardened+messages", f"{sums}, and take back whole messages", hardened=True, show_rows=False)
    yield Defence(
        "hardened+sums", f"{sums}, and the server keeps totals", hardened=True, show_rows=False, keep_totals=True
    )


def defences() -> dict[str, Defence]:
    """Return every defence by its name: the bare server first, then single rules, then combinations."""
    bare, *combined = _combinations()
    found: dict[str, Defence] = {}
    for made in (bare, *_single_rules(), *combined):
        if made.name in found:
            raise InputError("defence", "rules with names of their own", f"a second '{made.name}'")
        found[made.name] = made
    return found


class _Defences(Mapping[str, Defence]):
    """Every defence by name, made on first use."""

    def __getitem__(self, name: str) -> Defence:
        return defences()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(defences())

    def __len__(self) -> int:
        return len(defences())


DEFENCES = _Defences()


def defence(name: str) -> Defence:
    """Return a defence by its name."""
    known = defences()
    for other, made in known.items():
        if spelt(other) == spelt(name):
            return made
    raise unknown_name("defence", name, known)

"""The verdict on the operator's own settings: what they change, what they cost, what they do not show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exhume.audit.levels import LEVELS, Level
from exhume.audit.plan import BARE
from exhume.audit.records import CellRecord, Finding, Verdict
from exhume.audit.records_defence import DefenceRecord, Effect, SiegeRecord
from exhume.audit.verdict import is_sound, no_verdict, quantity

__all__ = ["best_siege", "conclude_defended", "is_proved", "price_of"]

PROVED = 0.1
"""An account that leaves any test at most this advantage over guessing counts as a proof that little comes out."""

CERTAIN = 0.95
"""From this advantage on, an account says nothing."""

_HEADLINE: dict[Level, str] = {
    "none": "With these settings the attacks of this run dug up nothing beyond guessing.{rest}",
    "aggregate": "With these settings a client could still dig up the summed statistics of what was deleted.",
    "label": "With these settings a client could still tell the class of a deleted record.",
    "feature": "With these settings a client could still dig up the feature vector of a deleted record.",
    "replay": "With these settings a client could still dig up what was deleted and put it back.",
}


def conclude_defended(found: DefenceRecord, findings: Sequence[Finding], cells: Sequence[CellRecord]) -> Verdict:
    """Put the effect of the settings into words; the level is that of the configured server.

    There is no verdict where no attacker could show anything and the settings are not why.
    """
    body = [
        f"The worst level is {found.severity_without.upper()} without settings, {found.severity_with.upper()} with "
        f"{found.name} ({', '.join(rule.rule for rule in found.rules) or 'no rule at all'}).",
        *_samples(found.effects, findings),
        *_sums(found.effects),
        *_stopped(found),
        _cost(found),
        *_exposure(found),
        *_privacy(found),
        *_sieges(found),
    ]
    ours = [cell for cell in cells if cell.server != BARE]
    tried = any(is_sound(cell) for cell in ours) or any(siege.guessed for siege in found.sieges)
    if found.severity_with == "none" and not (tried or found.attack_refused or found.attack_withheld):
        return no_verdict("no estimate by any attacker, and the settings refused and withheld nothing", body)
    guarantee = max((one.worst.advantage_total or 0.0 for one in found.privacy), default=None)
    rest = " The account bounds all others." if is_proved(guarantee) else " Others might."
    headline = _HEADLINE[found.severity_with].format(rest=rest)
    lines = [f"Verdict: {found.severity_with.upper()}. {headline}", *(f"  {line}" for line in body)]
    return Verdict(severity=found.severity_with, text="\n".join(lines), guarantee=guarantee)


def is_proved(guarantee: float | None) -> bool:
    """Whether an account bounds what any attack could tell of every audited deletion."""
    return guarantee is not None and guarantee <= PROVED


def _samples(effects: Sequence[Effect], findings: Sequence[Finding]) -> list[str]:
    """Say how the best attack on single records did, without and with."""
    sample = [e for e in effects if e.labels_with is not None]
    if not sample:
        return []
    chance = next(f.labels_chance or 0.0 for f in findings if f.server != BARE and f.labels_correct is not None)
    without = max(sample, key=lambda e: (e.labels_without or 0, -(e.feature_error_without or 0.0)))
    ours = max(sample, key=lambda e: (e.labels_with or 0, -(e.feature_error_with or 0.0)))
    parts = []
    for name, labels, error in (
        ("without", without.labels_without, without.feature_error_without),
        ("with", ours.labels_with, ours.feature_error_with),
    ):
        off = f", features off by {quantity(error)}" if error is not None else ""
        tried = labels or error is not None
        parts.append(f"{labels}/{ours.trials} {name}{off}" if tried else f"no estimate in {ours.trials} {name}")
    return [f"A deleted record, its label right: {'; '.join(parts)}; guessing {chance:.0%}."]


def _sums(effects: Sequence[Effect]) -> list[str]:
    group = [e for e in effects if e.kind != "record"]
    if not group:
        return []
    kinds = " or ".join(dict.fromkeys(e.kind for e in group))
    without, ours = (sum(level != "none" for level in side) for side in _levels(group))
    return [f"A deleted {kinds}: something came out in {without} of {len(group)} attacks without, {ours} with."]


def _levels(effects: Sequence[Effect]) -> tuple[list[Level], list[Level]]:
    return [e.level_without for e in effects], [e.level_with for e in effects]


def _stopped(found: DefenceRecord) -> list[str]:
    parts = [
        f"{rule} refused {n} of {found.attack_messages} probe messages" for rule, n in found.attack_refused.items()
    ]
    if found.attack_withheld:
        parts.append(f"{found.attack_withheld} probe messages got no new head")
    if refused := sum(e.replays_refused for e in found.effects):
        parts.append(f"{refused} replays were refused")
    return [f"The settings in action: {'; '.join(parts)}."] if parts else []


def _cost(found: DefenceRecord) -> str:
    return f"Price: {price_of(found)}."


def price_of(found: DefenceRecord) -> str:
    """Say what the settings cost the honest."""
    price = found.price
    lost = "accuracy not measured"
    if price.accuracy_lost is not None:
        points, heads = f"{100 * price.accuracy_lost:.2f} points", f"mean of {price.heads} heads"
        # What looks like a gain is luck: nobody is promised one.
        lost = f"{points} of accuracy ({heads})" if price.accuracy_lost >= 0 else f"no accuracy ({points}, {heads})"
    refused = sum(price.deletions_refused.values())
    rules = f" ({_counts(price.deletions_refused)})" if refused else ""
    return (
        f"{lost}; {sum(price.uploads_refused.values())} of {price.uploads} uploads and {refused} of {price.deletions} "
        f"deletions refused{rules}; {price.uploads_withheld + price.deletions_withheld} of their heads withheld"
    )


def _exposure(found: DefenceRecord) -> list[str]:
    if found.exposure_with is None:
        return []
    without = "" if found.exposure_without is None else f" ({found.exposure_without:.2f} without)"
    honest = "" if found.exposure_honest is None else f", other clients at most {found.exposure_honest:.2f}"
    return [
        f"Exposure: the attacker has {found.exposure_with:.2f}{without}{honest}; "
        "at 1 the heads it got determine a state, as released."
    ]


def _privacy(found: DefenceRecord) -> list[str]:
    if not found.privacy:
        return []
    one = found.privacy[0]
    best = one.worst.advantage_total or 0.0
    told = f"the best test beats guessing by {best:.0%}" if best < CERTAIN else "too large to exclude any attack"
    return [
        f"Privacy of a deleted {one.kind} over all releases: mu {_mu(one.median.mu_total)} (median), at most "
        f"{_mu(one.worst.mu_total)}: {told}."
    ]


def _sieges(found: DefenceRecord) -> list[str]:
    """Say what the best of the attackers that know the settings got."""
    best = best_siege(found)
    if best is None:
        return [found.caveat]
    off = "" if best.relerr_feature is None else f" (features off by {quantity(best.relerr_feature)})"
    many = len(found.sieges)
    who = "1 attacker that knows the settings" if many == 1 else f"{many} attackers that know the settings: the best"
    return [f"{who} ({best.attack}) has {best.labels_correct}/{best.trials} labels{off} and puts back {best.replays}."]


def best_siege(found: DefenceRecord) -> SiegeRecord | None:
    """Return the attacker that knows the settings and got most; None where none was played that reads."""
    read = [s for s in found.sieges if s.labels_correct is not None]
    return max(read, key=lambda s: (LEVELS.index(s.level), s.labels_correct or 0), default=None)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} by {rule}" for rule, n in counts.items())


def _mu(value: float | None) -> str:
    return "infinite" if value is None else quantity(value)

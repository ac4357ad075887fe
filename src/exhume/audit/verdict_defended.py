"""The verdict on the operator's own settings: what they change, what they cost, what they do not show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exhume.audit.levels import LEVELS, Level
from exhume.audit.plan import BARE
from exhume.audit.records import CellRecord, Finding, Verdict
from exhume.audit.records_defence import DefenceRecord, Effect
from exhume.audit.verdict import is_sound, no_verdict, quantity

__all__ = ["conclude_defended"]

_HEADLINE: dict[Level, str] = {
    "none": "With these settings the attacks of this run dug up nothing beyond guessing.",
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
        f"Worst level without settings {found.severity_without.upper()}, with {found.name} "
        f"({', '.join(rule.rule for rule in found.rules) or 'no rule at all'}) {found.severity_with.upper()}.",
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
    lines = [f"Verdict: {found.severity_with.upper()}. {_HEADLINE[found.severity_with]}"]
    return Verdict(severity=found.severity_with, text="\n".join(lines + [f"  {line}" for line in body]))


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
        parts.append(f"{name} {labels}/{ours.trials}{off}" if tried else f"{name} no estimate in {ours.trials}")
    return [f"One record deleted, labels right: {'; '.join(parts)}; guessing {chance:.0%}."]


def _sums(effects: Sequence[Effect]) -> list[str]:
    group = [e for e in effects if e.kind != "record"]
    if not group:
        return []
    kinds = " and ".join(dict.fromkeys(e.kind for e in group))
    without, ours = (sum(level != "none" for level in side) for side in _levels(group))
    return [f"Whole {kinds} deleted: something came out in {without} of {len(group)} attacks without, {ours} with."]


def _levels(effects: Sequence[Effect]) -> tuple[list[Level], list[Level]]:
    return [e.level_without for e in effects], [e.level_with for e in effects]


def _stopped(found: DefenceRecord) -> list[str]:
    parts = []
    if found.attack_refused:
        parts += [f"{n} refused by {rule}" for rule, n in found.attack_refused.items()]
    if found.attack_withheld:
        parts.append(f"{found.attack_withheld} not answered by a new head")
    text = f"Of {found.attack_messages} probe messages {', '.join(parts) or 'none was refused'}"
    refused = sum(e.replays_refused for e in found.effects)
    return [f"{text}; replays refused: {refused}."] if parts or refused else []


def _cost(found: DefenceRecord) -> str:
    price = found.price
    lost = "not measured" if price.accuracy_lost is None else f"{100 * price.accuracy_lost:.2f} points"
    refused = sum(price.deletions_refused.values())
    rules = f" ({_counts(price.deletions_refused)})" if refused else ""
    return (
        f"Price: accuracy lost {lost} (mean of {price.heads} heads); refused {sum(price.uploads_refused.values())} of "
        f"{price.uploads} uploads and {refused} of {price.deletions} deletions{rules}; heads withheld after them: "
        f"{price.uploads_withheld + price.deletions_withheld}."
    )


def _exposure(found: DefenceRecord) -> list[str]:
    if found.exposure_with is None:
        return []
    without = "" if found.exposure_without is None else f" ({found.exposure_without:.2f} without)"
    honest = "" if found.exposure_honest is None else f"; of the other clients at most {found.exposure_honest:.2f}"
    return [f"Exposure: of the attacker {found.exposure_with:.2f}{without}{honest}; at 1 a state is identifiable."]


def _privacy(found: DefenceRecord) -> list[str]:
    if not found.privacy:
        return []
    one = found.privacy[0]
    what = f"a deleted {one.kind}"
    return [
        f"Privacy of {what} over all releases: mu {_mu(one.median.mu_total)} (median), at most "
        f"{_mu(one.worst.mu_total)} (best advantage of any test {one.worst.advantage_total or 0:.0%})."
    ]


def _sieges(found: DefenceRecord) -> list[str]:
    """Say what the best of the attackers that know the settings got."""
    read = [s for s in found.sieges if s.labels_correct is not None]
    if not read:
        return [found.caveat]
    best = max(read, key=lambda s: (LEVELS.index(s.level), s.labels_correct or 0))
    off = "" if best.relerr_feature is None else f", features off by {quantity(best.relerr_feature)}"
    return [
        f"Attackers that know the settings, {len(found.sieges)} of them: the best ({best.attack}) has "
        f"{best.labels_correct}/{best.trials} labels{off}, puts back {best.replays}."
    ]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} by {rule}" for rule, n in counts.items())


def _mu(value: float | None) -> str:
    return "infinite" if value is None else quantity(value)

"""The verdict: at most ten plain lines, each backed by a number of this run or by a theorem."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from exhume.audit.levels import THRESHOLDS, Level, worst
from exhume.audit.records import CellRecord, Finding, LiveRecord, Verdict

__all__ = ["HEADLINE", "conclude", "conclude_live", "is_sound", "no_verdict", "quantity", "stated"]

MOST_LINES = 10

HEADLINE: dict[Level, str] = {
    "none": "The attacks of this run dug up nothing beyond guessing. Others might.",
    "aggregate": "A client could dig up the summed statistics of what was deleted.",
    "label": "A client could tell the class of a deleted record.",
    "feature": "A client could dig up the feature vector of a deleted record.",
    "replay": "A client could dig up what was deleted and put it back.",
}


def conclude(findings: Sequence[Finding], cells: Sequence[CellRecord], classes: int) -> Verdict:
    """Put the findings into words."""
    severity = worst(f.severity for f in findings)
    if severity == "none" and not any(is_sound(cell) for cell in cells):
        return no_verdict(_why(cells), [*_samples(findings), *_live(cells, findings), *_seen(cells)])
    rest = [
        *_aggregates(findings),
        *_cost(findings),
        *_precision(findings),
        *_failed(findings),
        *_live(cells, findings),
        *_seen(cells),
        *_remedies(findings, severity, classes),
    ]
    room = MOST_LINES - 1 - len(rest)
    return stated(severity, HEADLINE[severity], [*_samples(findings)[:room], *rest])


_NO_REMEDY = "Releasing fewer heads, or honest updates in between, does not help."


def enough(dim: int, classes: int) -> str:
    """Say how many heads tell everything."""
    return (
        f"{math.ceil(dim / classes)} heads tell the whole hidden state: {dim} features / {classes} classes (Theorem 1)."
    )


def conclude_live(live: LiveRecord) -> Verdict:
    """Put what a live target gave away into words."""
    foretold = live.prediction_error is not None and live.prediction_error <= THRESHOLDS.aggregate_error
    severity: Level = "aggregate" if live.identified and foretold else "none"
    if (reached := _deletion_level(live)) is not None:
        return _live_deletion(live, reached)
    state = "came back" if live.restored else "DID NOT COME BACK"
    ending = f"After cancellation the head {state}: relative residual {quantity(live.residual)}."
    spent = f"{live.responses} heads, {live.messages} messages, with the dry run and all cancellations."
    if severity == "none" and (why := _unread(live)):
        return no_verdict(why, [f"Used: {spent}", ending])
    if severity == "aggregate":
        headline = "A client can read this server's hidden totals."
        body = [
            f"The totals that were read foretold the answer to an unseen probe to within "
            f"{quantity(live.prediction_error)}.",
            f"Cost: {spent}",
            "Read before and after a deletion, the totals differ by exactly what was deleted (Proposition 2).",
            f"{enough(live.dim, live.classes)} {_NO_REMEDY}",
        ]
    else:
        headline = "The probes of this run did not read this server's hidden totals."
        off = quantity(live.prediction_error)
        body = [
            f"What they gave foretold an unseen probe badly (off by {off}), although they were large enough to read."
        ]
        body.append(f"Used: {spent} Other probes may do better.")
    body.append(ending)
    return stated(severity, headline, body)


def _deletion_level(live: LiveRecord) -> Level | None:
    """Return the level that a played deletion reached by itself; one record cannot show that a label was no guess."""
    found = live.deletion
    if found is None or not found.label_right or found.feature_error is None:
        return None
    if found.feature_error > THRESHOLDS.feature_error:
        return None
    undone = found.replayed is not None and 1.0 - found.replayed <= THRESHOLDS.replay_share
    return "replay" if undone else "feature"


def _live_deletion(live: LiveRecord, severity: Level) -> Verdict:
    """Put a played deletion into words."""
    found = live.deletion
    assert found is not None
    came = f"One record deleted: label right, features off by {quantity(found.feature_error)}; measured, not inferred."
    if severity == "replay":
        headline = "A client can dig up what was deleted on this server and put it back."
        after = f"Put back, it undid {found.replayed:.0%} of the deletion's change of the head."
    else:
        headline = "A client can dig up what was deleted on this server."
        after = "Putting it back was refused, or did not undo the deletion."
    spent = f"Cost: {live.responses} heads, {live.messages} messages, with the dry run and all cancellations."
    ending = f"Everything was undone: the head is off by {quantity(found.residual)} of what it was at the start."
    return stated(severity, headline, [came, after, spent, ending])


def _unread(live: LiveRecord) -> str | None:
    """Return why a live run could not have shown anything; None where it could, and did not."""
    if live.failed:
        return f"the target broke down ({live.reason})"
    if live.interrupted:
        return "interrupted"
    if not live.restored:
        return "the head did not come back"
    if live.faint:
        noise, scale = quantity(live.noise), quantity(live.scale)
        return f"too faint at scale {scale}: the answers are within the server's own arithmetic, {noise} of a head"
    if not live.identified or live.prediction_error is None:
        return f"no estimate, {live.reason or 'for nothing was read'}"
    return None


def is_sound(cell: CellRecord) -> bool:
    """Whether a cell could have shown something: a state was identified, by probes above the heads' rounding."""
    return cell.identified and not cell.faint


def no_verdict(reason: str, body: Sequence[str]) -> Verdict:
    """Say that nothing can be said: nothing was tried, or nothing that could have shown anything."""
    lines = [f"No verdict: {reason}.", "This says nothing about the server: it is no clean bill.", *body]
    text = "\n  ".join(lines[:MOST_LINES])
    return Verdict(severity=None, text=text)


def _why(cells: Sequence[CellRecord]) -> str:
    """Return the commonest reason why no cell could show anything."""
    if any(cell.faint for cell in cells):
        return "no estimate, for the probes were too faint (their answers are within the rounding of the heads)"
    reasons = Counter(cell.error or cell.reason or "no state was identified" for cell in cells)
    return f"no estimate, {reasons.most_common(1)[0][0] if reasons else 'for nothing was tried'}"


def quantity(value: float | None) -> str:
    """Write a number for people: few digits, plain where it can be."""
    if value is None:
        return "-"
    if value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def stated(severity: Level, headline: str, body: Sequence[str]) -> Verdict:
    """Return a verdict of so many lines at most."""
    lines = [f"Verdict: {severity.upper()}. {headline}", *(f"  {line}" for line in body)]
    return Verdict(severity=severity, text="\n".join(lines[:MOST_LINES]))


def _samples(findings: Sequence[Finding]) -> list[str]:
    """Say, per head precision, how well the best estimator did on deleted records."""
    lines = []
    sample = [f for f in findings if f.labels_correct is not None]
    for precision in dict.fromkeys(f.precision for f in sample):
        best = max((f for f in sample if f.precision == precision), key=_goodness)
        low, high, chance = best.labels_low or 0.0, best.labels_high or 0.0, best.labels_chance or 0.0
        if not best.identified:
            lines.append(f"A deleted record, {precision} heads: no estimate in {best.trials} trials.")
            continue
        error = f"; its features are off by {quantity(best.relerr_feature.median)}" if best.relerr_feature else ""
        lines.append(
            f"A deleted record, {precision} heads: its label is right {best.labels_correct}/{best.trials} times "
            f"(95% CI {low:.0%} to {high:.0%}, guessing {chance:.0%}){error}."
        )
    return lines


def _goodness(finding: Finding) -> tuple[float, float]:
    error = finding.relerr_feature.median if finding.relerr_feature else None
    return finding.labels_correct or 0, -(math.inf if error is None else error)


def _live(cells: Sequence[CellRecord], findings: Sequence[Finding]) -> list[str]:
    """Say where a probe spoke of some features only."""
    dim = findings[0].dim if findings else 0
    parts = {c.probe: f"{c.probe} of {c.live} of {dim}" for c in cells if c.live is not None and c.live < dim}
    if not parts:
        return []
    return [f"Features that probes can speak of, not zero in all of the attacker's rows: {', '.join(parts.values())}."]


def _aggregates(findings: Sequence[Finding]) -> list[str]:
    group = [f for f in findings if f.kind in ("class", "client")]
    if not group:
        return []
    kinds = " or ".join(dict.fromkeys(f.kind for f in group))
    out, back = (sum(level in f.reached for f in group) for level in ("aggregate", "replay"))
    told = [f.membership for f in group if f.membership is not None]
    who = f"; they say who was in it ({max(told):.1%} of pairs ranked right)" if told else ""
    return [f"A deleted {kinds}: its sums came out in {out} of {len(group)} attacks, and went back in {back}{who}."]


def _cost(findings: Sequence[Finding]) -> list[str]:
    """Say what the cheapest way of each estimator to its worst level costs."""
    parts = []
    for recovery in dict.fromkeys(f.recovery for f in findings):
        group = [f for f in findings if f.recovery == recovery and f.severity != "none" and f.responses_first]
        if group:
            cheap = min(group, key=lambda f: f.responses_first or 0)
            parts.append(f"{cheap.responses_first} heads, then {cheap.responses_next} per deletion ({recovery})")
    return [f"The client needs {'; or '.join(parts)}."] if parts else []


def _precision(findings: Sequence[Finding]) -> list[str]:
    """Say how far each head format got, if this run compared several."""
    by = {
        p: worst(f.severity for f in findings if f.precision == p) for p in dict.fromkeys(f.precision for f in findings)
    }
    if len(by) < 2:
        return []
    return [f"Worst level per head format: {', '.join(f'{form} {level.upper()}' for form, level in by.items())}."]


def _failed(findings: Sequence[Finding]) -> list[str]:
    lost = [f for f in findings if f.severity == "none"]
    if not lost or len(lost) == len(findings):
        return []
    names = [f"{f.probe}/{f.precision}/{f.recovery}/{f.kind}" for f in lost]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return [f"{len(lost)} of {len(findings)} attacks gave nothing: {', '.join(names[:2])}{more}."]


def _seen(cells: Sequence[CellRecord]) -> list[str]:
    parts = {c.probe: f"{c.flagged} of {c.messages} ({c.probe})" for c in reversed(cells) if c.messages}
    if not parts:
        return []
    return [f"A size limit that 99% of honest batches pass would stop {', '.join(reversed(parts.values()))} messages."]


def _remedies(findings: Sequence[Finding], severity: Level, classes: int) -> list[str]:
    if not findings or severity == "none":
        return []
    return [f"{enough(findings[0].dim, classes)} {_NO_REMEDY}"]

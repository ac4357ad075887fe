"""The verdict of a live audit that showed rows: measured on deletions that were played, or none."""

from __future__ import annotations

from exhume.audit.levels import THRESHOLDS, Level
from exhume.audit.records import LiveRecord, Verdict
from exhume.audit.records_live import LiveDeletions, LiveReader
from exhume.audit.verdict import HEADLINE, no_verdict, quantity, stated

__all__ = ["conclude_rows", "level_of_rows"]


_MADE_UP = (
    "Records were made up, half as long as the bounds allow and more: shorter ones tell less. Try rows like yours."
)

DOUBTFUL = 0.05
"""Below this p a run that reached no level is no all-clear either."""


def conclude_rows(live: LiveRecord) -> Verdict:
    """Put what a service gave away to somebody who shows rows into words."""
    found = live.deletions
    spent = f"{live.responses} heads, {live.messages} messages, half of them deletions: each is an event of the noise."
    ending = f"Every row was taken back, by receipts; the head is {quantity(live.residual)} from where it was."
    level = level_of_rows(live)
    if level == "none" and (why := _unsure(live)):
        return no_verdict(why, [*_deleted(found), f"Used: {spent}", ending])
    about = [_missed(live)] if level == "none" else [_MADE_UP] if live.rows_made_up else []
    return stated(level, HEADLINE[level], [*_deleted(found), *about, *_totals(live), f"Used: {spent}", ending])


def level_of_rows(live: LiveRecord) -> Level:
    """Return the worst level that was reached."""
    found = live.deletions
    if found is not None and found.planned:
        most = max(reader.features_right for reader in found.readers)
        if most >= THRESHOLDS.majority * found.planned:
            back = found.replayed is not None and 1.0 - found.replayed <= THRESHOLDS.replay_share
            return "replay" if back else "feature"
        if found.tries and _p(found) <= THRESHOLDS.label_p:
            return "label"
    read = live.identified and live.prediction_error is not None
    return "aggregate" if read and (live.prediction_error or 0.0) <= THRESHOLDS.aggregate_error else "none"


def _best(found: LiveDeletions) -> LiveReader:
    return max(found.readers, key=lambda reader: (reader.labels_right, reader.features_right))


def _p(found: LiveDeletions) -> float:
    """Return the p of the best reader's labels, times the number of readers that were tried."""
    return min(1.0, len(found.readers) * min(1.0 if reader.p is None else reader.p for reader in found.readers))


def _unsure(live: LiveRecord) -> str | None:
    """Return why a run that found nothing could not have found anything; None where it could."""
    if live.failed:
        return f"the service broke down ({live.reason})"
    if live.interrupted:
        return "interrupted"
    found = live.deletions
    if found is None:
        return live.reason or "no deletion was played"
    if found.tries < THRESHOLDS.majority * found.planned:
        return f"others sent, or heads were withheld, in {found.planned - found.tries} of {found.planned} deletions"
    if len(found.readers) * (found.chance or 0.0) ** found.tries > THRESHOLDS.label_p:
        return f"{found.tries} deletions cannot tell a label that was read from a guess: more --trials, or more rows"
    if _p(found) <= DOUBTFUL:
        return (
            f"labels came out a little better than guessing (p = {_p(found):.2g}): more --trials tell whether by luck"
        )
    return None


def _deleted(found: LiveDeletions | None) -> list[str]:
    if found is None or not found.tries:
        return []
    best = _best(found)
    names = ", ".join(reader.name for reader in found.readers)
    lines = [
        f"{found.tries} records deleted: {best.labels_right} labels right by {best.name}, the best of {names}; blind "
        f"guessing is right in {found.chance or 0.0:.0%} (p = {_p(found):.2g})."
    ]
    clear = max(found.readers, key=lambda reader: reader.features_right)
    off = min((reader.feature_error for reader in found.readers if reader.feature_error is not None), default=None)
    lines.append(
        f"Features: {clear.features_right} of {found.tries} within {THRESHOLDS.feature_error:.0%}; typically off by "
        f"{quantity(off)} at best (1 is nothing)."
    )
    if found.replayed is not None:
        lines.append(f"Put back, {found.replays} of them undid {found.replayed:.0%} of their deletion.")
    return lines


def _missed(live: LiveRecord) -> str:
    """Say what a run that found nothing could have missed."""
    found = live.deletions
    assert found is not None
    rate = max(reader.highest or 0.0 for reader in found.readers)
    rows = "rows were made up, and real ones may tell more; " if live.rows_made_up else ""
    return (
        f"It could have missed: an attack that is right in up to {rate:.0%} of deletions (95%); {rows}several clients "
        "together, more events than these, and somebody who knows the feature were not played."
    )


def _totals(live: LiveRecord) -> list[str]:
    if not live.identified or live.prediction_error is None:
        return [f"Hidden totals: no estimate ({live.reason or 'nothing was read'})."]
    how = "foretold" if live.prediction_error <= THRESHOLDS.aggregate_error else "did not foretell"
    return [f"Hidden totals: what was read {how} an unseen answer (off by {quantity(live.prediction_error)})."]

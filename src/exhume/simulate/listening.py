"""A probe run against a server that may refuse messages and withhold heads: what was heard, and what was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from exhume.attack.probes.base import MomentProbe, Probe, ballast_of, coordinates_of, moment_pairs
from exhume.attack.probes.own_data import OwnDataProbe
from exhume.attack.session import Attack
from exhume.attack.transcript import Recorder, Transcript
from exhume.errors import AttackError, RefusedError, SingularStateError
from exhume.protocol.head import Head
from exhume.protocol.message import Batch, Message, message
from exhume.protocol.summary import Summary, Update

__all__ = ["ProbeOutcome", "lay_ballast", "listen", "refusal_of"]


@dataclass(frozen=True)
class ProbeOutcome:
    """What came of one probe sequence."""

    transcript: Transcript | None
    """The responses that came; None where there was no head to start from."""
    sent: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Messages refused, by rule."""
    withheld: int = 0
    """Responses that were the old head once more."""
    first: str | None = None
    """The first refusal, in the rule's own words."""
    standing: Summary | None = None
    """What stays in the ledger because its cancellation was refused."""
    broken: str | None = None
    """Why the run ended early, if it did."""

    @property
    def responses(self) -> int:
        """How many responses went into the stacks."""
        return 0 if self.transcript is None else self.transcript.responses

    def why(self, reason: str | None = None) -> str | None:
        """Say what went wrong, whatever the identification itself says of it."""
        parts = []
        if self.refused:
            rules = ", ".join(f"{rule} {n}" for rule, n in sorted(self.refused.items()))
            parts.append(f"refused: {self.refused.total()} of {self.sent} messages ({rules}), first: {self.first}")
        if self.withheld:
            parts.append(f"withheld: {self.withheld} of {self.sent} heads")
        if self.standing is not None:
            parts.append("the probes could not be taken back")
        parts += [text for text in (self.broken, reason) if text is not None]
        return "; ".join(parts) or None


def listen(attack: Attack, probe: Probe, *, show_rows: bool = False) -> ProbeOutcome:
    """Send a probe, skip what is refused, keep every new head, and take back what got in.

    Parameters
    ----------
    attack
        The malicious client, facing its server.
    probe
        What it sends.
    show_rows
        Whether it shows the rows behind its messages, as far as there are any.
    """
    try:
        last = attack.observe()
    except RefusedError as error:
        return ProbeOutcome(None, broken=f"withheld: {error.reason}")
    run = _Listener(attack, Recorder(last, probe.name, coordinates_of(probe)), last, show_rows=show_rows)
    broken = None
    for update, wanted in _messages(probe, show_rows):
        try:
            run.send(update, wanted)
        except AttackError as error:
            broken = str(error)
            break
    final, standing = run.cancel(probe, show_rows)
    transcript = run.recorder.transcript(final)
    return ProbeOutcome(transcript, run.sent, run.refused, run.withheld, run.first, standing, broken)


def lay_ballast(attack: Attack, probe: Probe) -> str | None:
    """Put a probe's ballast into the ledger, if it has one; returns who refused it and why, if somebody did.

    It stays: the federation that a campaign took over is not used for anything else.
    """
    wanted = ballast_of(probe)
    if wanted is None:
        return None
    try:
        attack.submit(Update.adding(wanted))
    except (RefusedError, SingularStateError) as error:
        rule, reason = refusal_of(error)
        return f"no ballast, refused by {rule}: {reason}"
    return None


@dataclass
class _Listener:
    attack: Attack
    recorder: Recorder
    last: Head
    sent: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    withheld: int = 0
    first: str | None = None
    show_rows: bool = False
    accepted: list[Update] = field(default_factory=list)
    """Kept only where the cancellation must show the rows behind them: as large as the stacks together."""

    def send(self, update: Update, wanted: bool) -> None:
        before = self.last
        if not self._submit(update):
            return
        self.recorder.sent(update.net)
        if self.show_rows:
            self.accepted.append(update)
        if not wanted:
            return
        if self.last.serial == before.serial:
            self.withheld += 1
        else:
            self.recorder.heard(self.last)

    def cancel(self, probe: Probe, show_rows: bool) -> tuple[Head | None, Summary | None]:
        """Take everything back; returns the head after it, if a new one came, and what the server did not give back."""
        total = self.recorder.total
        if total.is_zero:
            return None, None
        before = self.last
        update = probe.cancel(total, self.recorder.steps)
        if not self._submit(_with_rows(probe, update, self.accepted) if show_rows else update):
            return None, total
        return (self.last if self.last.serial != before.serial else None), None

    def _submit(self, update: Update) -> bool:
        self.sent += 1
        try:
            self.last = self.attack.submit(update)
        except (RefusedError, SingularStateError) as error:
            rule, reason = refusal_of(error)
            self.refused[rule] += 1
            self.first = self.first or reason
            return False
        return True


def refusal_of(error: RefusedError | SingularStateError) -> tuple[str, str]:
    """Return who refused a message, and why: a rule, or the ledger itself."""
    if isinstance(error, RefusedError):
        return error.rule or "server", error.reason
    return "ledger", str(error)


def _messages(probe: Probe, show_rows: bool) -> Iterator[tuple[Update, bool]]:
    if show_rows and isinstance(probe, OwnDataProbe) and not probe.replacing:
        for rows, step in zip(probe.batches, probe.steps(), strict=True):
            yield _showing(step.update, Batch(probe.features[rows], probe.labels[rows]), None), step.listen
        return
    show: Callable[[Update], Update] = (
        _pairs if show_rows and isinstance(probe, MomentProbe) else (lambda update: update)
    )
    for step in probe.steps():
        yield show(step.update), step.listen


def _with_rows(probe: Probe, update: Update, accepted: list[Update]) -> Update:
    if isinstance(probe, MomentProbe):
        return _pairs(update)
    batches = [batch for one in accepted if (batch := message(one).added) is not None]
    if not isinstance(probe, OwnDataProbe) or not batches:
        return update
    rows = Batch(np.concatenate([b.features for b in batches]), np.concatenate([b.labels for b in batches]))
    return _showing(update, None, rows)


def _pairs(update: Update) -> Update:
    """Show the made-up rows behind a moment change (Lemma 1)."""
    half, labels = moment_pairs(update.net.moment)
    return _showing(update, Batch(half, labels), Batch(-half, labels))


def _showing(update: Update, added: Batch | None, deleted: Batch | None) -> Message:
    return Message(update.add, update.delete, update.pairs, added=added, deleted=deleted)

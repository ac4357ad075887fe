"""A malicious client at work: probes a target, counts every message, and always takes its probes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from exhume.attack.estimate.direct import direct
from exhume.attack.probes.base import Probe, coordinates_of
from exhume.attack.state import State
from exhume.attack.transcript import Recorder, Transcript
from exhume.attack.watched import same_broadcast
from exhume.errors import AttackError, RefusedError
from exhume.numerics import RANK_TOLERANCE
from exhume.protocol.head import Head
from exhume.protocol.summary import Update
from exhume.protocol.target import Target

if TYPE_CHECKING:
    from exhume.attack.block import Block

__all__ = ["Attack", "Cost"]


@dataclass(frozen=True)
class Cost:
    """What an attack has used so far, counted as the paper counts."""

    probes: int = 0
    """Logical probes whose response went into a stack."""
    messages: int = 0
    """Updates sent: probes, restorations, cancellations, replays."""
    pairs: int = 0
    """Constituent add/delete pairs inside them."""
    responses: int = 0
    """Heads received: one per message, and one whenever the public head was found changed by somebody else."""


class Attack:
    """A malicious client that sees only a `Target`.

    Parameters
    ----------
    target
        The server as this client sees it.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._cost = Cost()
        self._seen: Head | None = None

    def __repr__(self) -> str:
        return f"Attack({type(self._target).__name__}, {self._cost})"

    @property
    def cost(self) -> Cost:
        """Probes, messages, pairs and responses so far."""
        return self._cost

    def facing(self, target: Target) -> Attack:
        """Return this attack, with what it has seen and spent so far, facing another copy of the same server."""
        twin = Attack(target)
        twin._cost, twin._seen = self._cost, self._seen
        return twin

    def observe(self) -> Head:
        """Look at the public head; counts as a response only if it is new."""
        head = self._target.head()
        if self._seen is None or not same_broadcast(head, self._seen):
            self._cost = replace(self._cost, responses=self._cost.responses + 1)
        self._seen = head
        return head

    def moved(self) -> bool:
        """Whether the public head is another than the last one seen: after a lost answer, that the message arrived."""
        return self._seen is not None and not same_broadcast(self._target.head(), self._seen)

    def run(self, probe: Probe) -> Transcript:
        """Submit a probe from the present state, listen, and cancel it.

        The cancellation is sent even if the run fails or is interrupted.
        """
        recorder = Recorder(self.observe(), probe.name, coordinates_of(probe))
        final: Head | None = None
        try:
            for step in probe.steps():
                before = self._seen
                head = self._submit_surely(step.update, recorder)
                if step.listen:
                    _check_fresh(before, head)
                    recorder.heard(head)
                    self._cost = replace(self._cost, probes=self._cost.probes + 1)
        finally:
            total = recorder.total
            if not total.is_zero:
                last = self._seen
                final = self._submit(probe.cancel(total, recorder.steps))
                if last is not None and final.serial is not None and final.serial == last.serial:
                    final = None  # withheld: the old head says nothing of the cancellation
        return recorder.transcript(final)

    def identify(
        self, probe: Probe, *, tolerance: float = RANK_TOLERANCE, estimate: Callable[..., State] = direct
    ) -> State:
        """Run a probe and identify the state that it found, by Algorithm 1 or another estimator."""
        return estimate(self.run(probe), tolerance=tolerance)

    def replay(self, block: Block) -> Head:
        """Submit a recovered block as an addition, from the state as it now is."""
        return self._submit(Update.adding(block.summary))

    def submit(self, update: Update) -> Head:
        """Submit any update and count it."""
        return self._submit(update)

    def _submit_surely(self, update: Update, recorder: Recorder) -> Head:
        """Submit and note an update; one whose answer was lost is noted if the public head shows that it arrived."""
        try:
            head = self._submit(update)
        except RefusedError:
            raise
        except BaseException:
            if self.moved():
                recorder.sent(update.net)
            raise
        recorder.sent(update.net)
        return head

    def _submit(self, update: Update) -> Head:
        head = self._target.submit(update)
        self._cost = replace(
            self._cost,
            messages=self._cost.messages + 1,
            pairs=self._cost.pairs + update.pairs,
            responses=self._cost.responses + 1,
        )
        self._seen = head
        return head


def _check_fresh(before: Head | None, head: Head) -> None:
    """Refuse to take a withheld release for a response: its serial is the old one."""
    if before is not None and head.serial is not None and head.serial == before.serial:
        raise AttackError("the server withheld its head after a probe: the response stack cannot be built")

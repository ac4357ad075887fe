"""Continual release: heads follow from running totals with correlated noise, and a record's whole life is one figure.

Every accepted submission is one event, additions and deletions alike. An event brings one draw, which stays in all
later totals with shares that fall off (`_factorisation`). All heads ever released, by whomever they are provoked and
however many they are, are functions of the noisy totals, and those of ``C x + z``: each event is seen once through
Gaussian noise. A block (P, Q) that comes or goes is

    mu^2 = k^2 ( |B^-1 P B^-T|^2 / (2 tau^2) + |B^-1 (Q - P W)|^2 / s^2 )

away from one of nothing in the sense of Gaussian privacy, k being the sensitivity of the factorisation, ``B B'`` and W
the epoch's measure. C has no negative entry, so that an addition and the deletion after it are at most ``sqrt(2)``
times that apart from neither: the figure for a record's whole life, known when it is taken in. Senders may choose what
they send by what they have seen: for Gaussian noise and a lower triangular C this changes nothing (Denisov et al.
2022).

**The measure** is fixed for an epoch. The first is that of public rows where there are some; else of what the ledger
holds when the first head is due (its founders: their additions came before anybody saw a head and are in no account,
their deletions are). An epoch ends after ``horizon`` events, or when the noisy gram has grown to `GROWN` times the
measure: both are public. Noise that is in the totals stays there; the next epoch's measure is at least the last one's
in every direction, so that no record weighs more in it. It lasts twice as long, so that who sends messages for their
own sake adds little noise: n events make about ``log2(n / horizon)`` epochs.

**The cap** holds for records that come after the first head: of one whose mu would be above it the heads are shown a
share only, and the same share goes when it goes (`_cuts`). The ledger has all of it. Where a message shows no rows, it
holds for what any record in it can weigh at most (`_figures`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from exhume.defence.memory import Memory, client_names
from exhume.defence.release._accounts import Accounts, EventAccount
from exhume.defence.release._base import Rule, at_least, positive
from exhume.defence.release._cuts import CutStep, Records, Shares
from exhume.defence.release._epoch import GROWN, Draws, Epoch, EpochMeasure, NoisedEvent, Totals
from exhume.defence.release._evaluator import EventTally
from exhume.defence.release._factorisation import Factorisation
from exhume.defence.release._figures import Figures, Sums, largest_record
from exhume.defence.release._noisy_head import solve
from exhume.defence.release._packed import diagonal, packed, whole
from exhume.defence.release._sticky import as_key, keyed_generator
from exhume.defence.release._told import Told
from exhume.errors import InputError
from exhume.numerics import Matrix
from exhume.protocol.head import Head
from exhume.protocol.ledger import Ledger
from exhume.protocol.message import Batch, message
from exhume.protocol.rules import Occasion, Undo, keep
from exhume.protocol.summary import Summary, Update

__all__ = ["HOW_TO_SHAPE", "ContinualNoise", "EventAccount"]

PURPOSE = "continual_noise"
"""What the draws are seeded with beside key and state: another one would be other noise."""

START = "largest_record"
"""The same, for where the search for the largest record in a block of sums begins."""

HOW_TO_SHAPE = (
    "rows that shape the noise: public=(features, labels) of your own, or founding=N, the messages of clients that you "
    "trust before the first head (grows=True takes the shape from whoever comes first, who can ruin it)"
)


@dataclass(frozen=True, eq=False)
class _Step:
    """What an occasion brings: its blocks and its draw, the head that follows, and whether the epoch ends with it."""

    occasion: Occasion
    epoch: Epoch
    blocks: tuple[tuple[NoisedEvent, float], ...]
    draw: Matrix | None
    """None where nobody sent anything: the head is then that of the present totals."""
    head: Matrix
    lifted: Matrix | None
    accounts: tuple[EventAccount, ...]
    spent: bool
    cuts: CutStep


class ContinualNoise(Rule):
    """Releases the heads of noisy running totals: one figure per record for all heads there will ever be.

    Parameters
    ----------
    sigma
        Size of the noise in the head at the end of an epoch, as `PosteriorNoise` at this sigma before the noise on the
        gram amplifies it.
    spread
        Size of the noise on the gram at the end of an epoch: its eigenvalues relative to the measure's lie mostly
        within ``1 - spread`` and ``1 + spread``. Above 0 and below 0.8.
    horizon
        Events of the first epoch; each further one lasts twice as long. A longer one costs little (its noise grows as
        the root of the logarithm), an epoch more costs as much noise again.
    cap
        Largest mu of a record's coming, and of its going; none by default. It needs an ownership rule: what goes must
        be what came.
    outlier
        How many times the mu of an average record of the measure a record may have, where that is below the cap; no
        such limit by default. It needs a cap.
    longest
        Length that no feature vector is above (that of `BoundedInfluence`), for messages of sums. The figure of several
        records is then held to ``outlier`` times that of average records, as many as its trace may be of, in place of
        the cap: that of an honest message of many rows lies above a record's.
    by_rows
        Whether messages show their rows (`Ownership(show_rows=True)`): every row is then a record. Else a message must
        go as it came (`WholeMessages`), and the figure is one that no record in it is above.
    grows
        Whether the measure grows with what comes: a new epoch begins when the totals have doubled, so that later
        records have a smaller mu. Whoever adds large rows then makes the noise larger for good, also after they have
        gone: not needed where the first measure is of as many rows as are expected. It grows where this is left out,
        but that does not start with an empty ledger unless there are founders or public rows.
    founding
        Submissions before the first head; until then heads are withheld. Without public rows these are the measure.
    public
        Totals of public rows, scaled to as many rows as the ledger is expected to hold: the first measure.
    key
        The secret behind the draws (hexadecimal or bytes); made if not given.
    """

    name = "continual-noise"
    about = "heads of noisy running totals: one figure per record, for life"
    example: ClassVar[Mapping[str, Any]] = {"sigma": 0.2}
    stage = "mask"

    def __init__(
        self,
        sigma: float,
        *,
        spread: float = 0.7,
        horizon: int = 1000,
        cap: float | None = None,
        outlier: float | None = None,
        longest: float | None = None,
        by_rows: bool = False,
        grows: bool | None = None,
        founding: int = 0,
        public: Summary | None = None,
        key: str | bytes | None = None,
    ) -> None:
        self.sigma = positive("sigma", sigma)
        if not 0 < spread < 0.8:
            raise InputError("spread", "above 0 and below 0.8", spread)
        self.spread, self.horizon = float(spread), at_least("horizon", horizon, 2)
        self.cap = None if cap is None else positive("cap", cap)
        self.outlier = None if outlier is None else positive("outlier", outlier)
        self.longest = None if longest is None else positive("longest", longest)
        if cap is None and outlier is not None:
            raise InputError("outlier", "left out where there is no cap", outlier)
        if outlier is None and longest is not None:
            raise InputError("longest", "left out where there is no outlier", longest)
        self.by_rows, self.founding = bool(by_rows), at_least("founding", founding, 0)
        self._shaped = public is not None or self.founding > 0 or grows is True
        self.grows = grows is None or grows
        self._public = public
        self._figures = Figures(
            self.sigma, self.spread, Factorisation.of(self.horizon), self.cap, self.outlier, self.longest
        )
        self._key = as_key(key)
        self._epoch: Epoch | None = None
        self._pending: _Step | None = None
        self._memo: _Step | None = None
        self._cuts: Shares = {}
        self._accounts = Accounts()
        self._number = self._epochs = 0

    def configuration(self) -> dict[str, Any]:
        """Return the constructor's arguments but the key and the public totals, which are kept with the state."""
        names = ("sigma", "spread", "horizon", "cap", "by_rows", "grows", "founding")
        # Left out where there is none: states that were saved before it was there are of the same configuration.
        since = [name for name in ("outlier", "longest") if getattr(self, name) is not None]
        return {name: getattr(self, name) for name in (*names, *since)}

    def check_start(self, total: Summary) -> None:
        """Refuse to begin with nothing where nobody said which rows shape the noise: whoever comes first would."""
        if total.is_zero and not self._shaped:
            raise InputError("public, founding", HOW_TO_SHAPE, "neither, and an empty ledger")

    @property
    def makes_heads(self) -> bool:
        """Heads follow from the noisy totals: nobody solves for the exact one."""
        return True

    @property
    def accounts(self) -> tuple[EventAccount, ...]:
        """The newest blocks that came or went since the first head, in order: `KEPT` of each kind."""
        return (*self._accounts.newest(), *self._to_come)

    @property
    def deletions(self) -> tuple[EventAccount, ...]:
        """The newest deletions, in order."""
        return (*self._accounts.deletions(), *(account for account in self._to_come if account.deleted))

    @property
    def tallies(self) -> dict[str, EventTally]:
        """How many events of each kind there were since the first head, and the largest figures of all."""
        return self._accounts.tallies(self._to_come)

    @property
    def _to_come(self) -> tuple[EventAccount, ...]:
        return () if self._pending is None else self._pending.accounts

    @property
    def epochs(self) -> int:
        """How many epochs there were, the present one included."""
        return self._epochs

    def event_noise(self, d: int) -> tuple[float, float]:
        """Return the noise that one draw of the present epoch has: s of the head, tau of the gram."""
        return self._figures.noise(d, self._present)

    @property
    def _present(self) -> Factorisation:
        return self._figures.first if self._epoch is None else self._epoch.draws.factorisation

    def deletion_noise(self, d: int) -> tuple[float, float]:
        """Return the noise between the totals before a deletion and after it: s of the head, tau of the gram."""
        s, tau = self.event_noise(d)
        return s * self._present.step, tau * self._present.step

    def mu(self, event: NoisedEvent) -> float:
        """Return the mu of a block's coming, or of its going: of all heads there will ever be."""
        return float(self._figures.mu(len(event.moment), *event.sizes))

    def quote(self, block: Summary | Batch) -> float:
        """Return the mu that a record would have for life, if it were taken in now: of several, the largest.

        Of sums it is one that no record in them is above: their own is not known.
        """
        self._flush()
        if self._epoch is None:
            raise InputError("measure", "fixed, with the first head", "none yet")
        measure = self._epoch.measure
        batch = block if isinstance(block, Batch) else None
        summary = Summary.of(block.features, block.labels, self._epoch.draws.c) if isinstance(block, Batch) else block
        records = Records.of(measure, summary, batch)
        sums = self._known(records, measure)
        if sums is not None:
            return math.sqrt(2.0) * self._figures.of_sums(measure, sums)
        single, limit = self._singly(records, measure, None)
        return math.sqrt(2.0) * min(float(single.max()), limit)

    def _known(self, records: Records, measure: EpochMeasure) -> Sums | None:
        """Return what is known of the records in sums; None where they are known one by one."""
        if records.sums is None:
            return None
        start = keyed_generator(self._key, START, self._number.to_bytes(8, "little")).standard_normal(len(measure.head))
        leverage, moment = largest_record(records.sums, measure, start)
        mu = float(self._figures.mu(len(measure.head), leverage, moment))
        rows = records.sums.rows
        return Sums(records.trace, leverage, mu, self.mu(records.sums), rows is not None and rows.shape[1] <= 2)

    def _singly(self, records: Records, measure: EpochMeasure, sums: Sums | None) -> tuple[Matrix, float]:
        """Return the mu of each record of a block, uncut, or one that bounds them all; and what it may be at most."""
        if sums is None:
            return self._figures.mu(len(measure.head), *records.sizes), self._figures.limit(measure)
        limit = self._figures.limit_of_sums(measure, sums.trace, sums.leverage, sums.mu)
        return np.array([sums.mu]), limit

    def masked_totals(self, ledger: Ledger) -> tuple[Matrix, Matrix]:
        """Return the noisy ``A`` and ``G`` of the present state: all that heads can tell, for the evaluator."""
        self._flush()
        if self._epoch is None:
            total = ledger.summary
            return total.gram + ledger.gamma * np.eye(ledger.d), total.moment
        gram, moment = self._noisy(self._epoch)
        return self._epoch.measure.coloured(whole(gram, ledger.d), moment)

    def told(self) -> Told | None:
        """Return what somebody told all totals of the epoch has, for the evaluator; None before the first head."""
        self._flush()
        if self._epoch is None:
            return None
        draws = self._epoch.draws.copy()
        return Told(self._epochs, self._epoch.measure, draws, *self.event_noise(draws.d))

    def shown(self, block: Summary) -> NoisedEvent | None:
        """Return a block in the coordinates of the measure, uncut; None before the first head."""
        self._flush()
        return None if self._epoch is None else self._epoch.measure.event(block)

    def masked(self, occasion: Occasion) -> Occasion:
        """Return the occasion as later rules may see it: with a ledger of the noisy totals."""
        step = self._after(occasion)
        if step is None:
            return occasion
        gram, moment = self._noisy(step.epoch, step)
        ledger = occasion.ledger
        steady = whole(self._steady(step.epoch, gram), ledger.d) if step.lifted is None else step.lifted
        A, _ = step.epoch.measure.coloured(steady, moment)
        noisy = Summary.kept(A - ledger.gamma * np.eye(ledger.d), A @ step.head)
        return replace(occasion, ledger=Ledger(noisy, ledger.gamma))

    def release(self, head: Head, occasion: Occasion) -> Head | None:
        """Return the head of the noisy totals; nothing while the founders come in."""
        step = self._after(occasion)
        early = occasion.counts.submissions < self.founding
        return None if step is None or early else replace(head, weights=step.head)

    def record(self, released: Head | None, occasion: Occasion) -> None:
        """Take up the occasion's event, whether or not a head went out."""
        step = self._after(occasion)
        self._flush()
        self._memo = None
        if step is not None:
            self._pending, self._number = step, self._number + (step.draw is not None)
            self._epochs += self._epoch is None
            self._epoch = step.epoch

    def checkpoint(self, clients: Sequence[str]) -> Undo:
        """Take the last step into the sums, and keep the rest, which is replaced and never changed."""
        self._flush()
        return keep(self)

    def settle(self) -> None:
        """Take the step into the sums: its sender's time, not that of whoever comes next."""
        self._flush()

    def _flush(self) -> None:
        """Take the last recorded step into totals and sums, in place: it can no longer fail."""
        step, self._pending = self._pending, None
        if step is None or step.draw is None:
            return
        for block, sign in step.blocks:
            step.epoch.totals.add(block, sign)
        step.epoch.draws.add(step.draw)
        step.cuts.settle()
        self._accounts.add(step.accounts)
        if step.spent:
            self._epoch = step.epoch.turned(*self.event_noise(step.epoch.draws.d), grows=self.grows)
            self._epochs += 1

    def _after(self, occasion: Occasion) -> _Step | None:
        """Return what an occasion brings; None while the founders come in."""
        if self._memo is None or self._memo.occasion is not occasion:
            self._flush()
            epoch, opened = self._epoch, False
            if epoch is None:
                epoch, opened = self._opened(occasion), True
            self._memo = None if epoch is None else self._step(epoch, occasion, opened)
        return self._memo

    def _opened(self, occasion: Occasion) -> Epoch | None:
        """Return the first epoch: of public rows from the first occasion on, else of all that the founders brought."""
        ledger, total = occasion.ledger, occasion.ledger.summary
        number, A = occasion.counts.submissions, total.gram + ledger.gamma * np.eye(ledger.d)
        draws = Draws(self._figures.first, ledger.d, ledger.c)
        if self._public is not None:
            measure = EpochMeasure.of(self._public.gram + ledger.gamma * np.eye(ledger.d), self._public.moment)
            totals = Totals(packed(measure.gram(A)), measure.moment(Summary.kept(A, total.moment)))
            for _, _, block, sign in _blocks(occasion):
                totals.add(measure.event(block), -sign)  # an event like any other: what it brings is yet to come
            return Epoch(measure, totals, draws)
        # By the number of messages, which is public: whether others have rows standing is not.
        if number < self.founding or (not number and total.is_zero):
            return None
        return Epoch(EpochMeasure.of(A, total.moment), Totals.of_measure(ledger.d, ledger.c), draws)

    def _step(self, epoch: Epoch, occasion: Occasion, opened: bool) -> _Step:
        blocks: list[tuple[NoisedEvent, float]] = []
        accounts, cuts = [], CutStep(self._cuts)
        for client, update, block, sign in _blocks(occasion):
            if opened and self._public is None:
                continue  # founders are in the measure
            account = EventAccount(occasion.counts.submissions, client, 0.0, deleted=sign < 0)
            event, account = self._cut(cuts.facing(client), epoch, update, block, account)
            blocks.append((event, sign))
            accounts.append(account)
        draw = self._draw(epoch, blocks) if opened or occasion.updates else None
        step = _Step(occasion, epoch, tuple(blocks), draw, np.empty(0), None, tuple(accounts), False, cuts)
        gram, moment = self._noisy(epoch, step)
        grown = self.grows and float(gram[diagonal(len(moment))].sum()) >= GROWN * len(moment)
        solved, lifted = solve(
            self._steady(epoch, gram), moment, lambda: self._steady(epoch, self._noisy(epoch, step)[0])
        )
        head = epoch.measure.head + epoch.measure.back(solved)
        return replace(step, head=head, lifted=lifted, spent=grown or epoch.draws.spent)

    def _cut(
        self, cuts: CutStep, epoch: Epoch, update: Update, block: Summary, account: EventAccount
    ) -> tuple[NoisedEvent, EventAccount]:
        """Return a block within the cap, and its account with figures; the shares follow."""
        told, comes = message(update), not account.deleted
        batch = (told.added if comes else told.deleted) if self.by_rows else None
        records = Records.of(epoch.measure, block, batch)
        sums = self._known(records, epoch.measure)
        single, cap = self._singly(records, epoch.measure, sums)
        shares = np.ones_like(single) if math.isinf(cap) else records.shares(cuts, cap, single, comes=comes)
        event = records.event(shares)
        mu = float((shares * single).max()) if sums is None else self._figures.of_sums(epoch.measure, sums)
        together = event.share * self.mu(event)
        return event, replace(account, mu=mu, block=together, rows=len(single) if records.shown else 0)

    def _draw(self, epoch: Epoch, blocks: Sequence[tuple[NoisedEvent, float]]) -> Matrix:
        # The state is in the seed, so that a server set back to an old copy does not repeat a draw.
        state = hashlib.blake2b(epoch.totals.moment.tobytes(), key=self._key)
        for block, sign in blocks:
            state.update((sign * block.share * block.moment).tobytes())
        rng = keyed_generator(self._key, PURPOSE, self._number.to_bytes(8, "little") + state.digest())
        return np.asarray(rng.standard_normal(epoch.draws.sums.shape[1]))

    def _steady(self, epoch: Epoch, gram: Matrix) -> Matrix:
        d = epoch.draws.d
        return epoch.steadied(gram, 2.0 * math.sqrt(d) * self.event_noise(d)[1] * epoch.draws.factorisation.largest)

    def _noisy(self, epoch: Epoch, step: _Step | None = None) -> tuple[Matrix, Matrix]:
        """Return the noisy totals in the measure's coordinates, now or after a step."""
        draw, blocks = (None, ()) if step is None else (step.draw, step.blocks)
        return epoch.noisy(*self.event_noise(epoch.draws.d), draw, blocks)

    def remembered(self) -> Memory:
        """Return the epoch, its draws, the account and the key. Whoever has them can take the noise off again."""
        self._flush()
        client_names(account.client for account in self._accounts.newest())
        values = {
            "key": self._key.hex(),
            "number": self._number,
            "epochs": self._epochs,
            "epoch": {"horizon": self._present.horizon, "left": 0.0 if self._epoch is None else self._epoch.left},
            "cuts": {key.hex(): list(shares) for key, shares in self._cuts.items()},
            **self._accounts.values(),
        }
        arrays: dict[str, Matrix] = {} if self._epoch is None else self._epoch.arrays()
        if self._public is not None:
            arrays |= {"public.gram": self._public.gram, "public.moment": self._public.moment}
        return Memory(values, arrays)

    def restore(self, memory: Memory) -> None:
        """Take over the epoch, its draws, the account and the key."""
        values, arrays = memory.values, memory.arrays
        epoch, public = None, None
        present = values.get("epoch", {"horizon": self.horizon, "left": 0.0})
        if "public.gram" in arrays:
            public = Summary.kept(arrays["public.gram"], arrays["public.moment"])
        if "factor" in arrays:
            epoch = Epoch.restored(int(present["horizon"]), float(present["left"]), arrays)
        accounts = Accounts.restored(values)
        self._key, self._public, self._epoch = as_key(str(values["key"])), public, epoch
        self._accounts = accounts
        self._cuts = {bytes.fromhex(key): tuple(shares) for key, shares in values["cuts"].items()}
        self._number, self._epochs = int(values["number"]), int(values["epochs"])
        self._pending = self._memo = None


def _blocks(occasion: Occasion) -> Iterator[tuple[str, Update, Summary, float]]:
    """Return what came and went, with its sender, its message and its sign."""
    for client, update in zip(occasion.clients, occasion.updates, strict=True):
        for block, sign in ((update.add, 1.0), (update.delete, -1.0)):
            if not block.is_zero:
                yield client, update, block, sign


RULES = (ContinualNoise,)

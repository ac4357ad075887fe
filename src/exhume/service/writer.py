"""The one writer: a thread that takes messages in order, several in one transaction, and then lets everybody know."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from exhume.errors import StoreError
from exhume.service.problems import ProblemError
from exhume.service.rounds import Gathering, Rounds
from exhume.store import Answer, DurableServer, Published, Sent, StoredReceipt

__all__ = ["Writer"]

_LOG = logging.getLogger("exhume.service")
_MOST = 64
"""Messages in one transaction, about."""
_TICK = 0.5


@dataclass(frozen=True, eq=False)
class _Waiting:
    sent: Sent
    answer: Future[StoredReceipt] = field(default_factory=Future)

    @property
    def client(self) -> str:
        return self.sent.client


class Writer:
    """Applies messages one after another; nobody who reads waits for it.

    Parameters
    ----------
    store
        Where they go. The writer is the only one who writes messages to it.
    gathering
        Which messages are one submission.
    most
        Messages that may wait; more are told to come back.
    """

    def __init__(self, store: DurableServer, gathering: Gathering, most: int) -> None:
        self.store, self._most = store, most
        self._rounds: Rounds[_Waiting] = Rounds(gathering)
        self._inbox: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._waiting = 0
        self._count = threading.Lock()
        self._listeners: list[Callable[[Published, list[StoredReceipt]], None]] = []
        self.failing: str | None = None
        """What the last transaction failed of; None where it did not."""
        self.commit_seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="exhume-writer", daemon=True)
        self._closing = False
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Messages that have come and are not answered yet."""
        return self._waiting

    @property
    def alive(self) -> bool:
        """Whether messages are being taken."""
        return self._thread.is_alive() and not self._closing

    def listen(self, listener: Callable[[Published, list[StoredReceipt]], None]) -> None:
        """Let somebody know after every transaction, in the writer's thread: what is public, and the new receipts."""
        self._listeners.append(listener)

    def send(self, sent: Sent) -> Future[StoredReceipt]:
        """Take up a message; the answer comes when it is on the disk."""
        with self._count:
            if not self.alive:
                raise ProblemError(503, "the service is stopping", headers={"Retry-After": "5"})
            if self._waiting >= self._most:
                raise ProblemError(429, "too many messages are waiting", headers={"Retry-After": "1"})
            self._waiting += 1
        one = _Waiting(sent)
        self._inbox.put(one)
        return one.answer

    async def submit(self, sent: Sent) -> StoredReceipt:
        """Take up a message and wait for its answer; whoever stops waiting does not take it back."""
        return await asyncio.shield(asyncio.wrap_future(self.send(sent)))

    def close(self) -> None:
        """Answer everybody who waits, and stop."""
        self._closing = True
        self._inbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            wait = self._rounds.wait()
            ended = self._gather(_TICK if wait is None else wait)
            closing = ended or self._closing
            rounds = self._rounds.due(_MOST, closing=closing)
            if rounds:
                self._commit(rounds)
            elif self.failing is not None and not closing:
                self._try_again()
            elif closing and not len(self._rounds):
                return

    def _try_again(self) -> None:
        """Find out whether what failed works again: whoever asks before sending would else never send."""
        try:
            self.store.try_writing()
        except StoreError as error:
            self.failing = str(error)
        else:
            self.failing = None

    def _gather(self, wait: float) -> bool:
        """Take up what has come, waiting a while for the first; True where nobody will send any more."""
        ended = False
        try:
            one = self._inbox.get(timeout=wait) if wait > 0 else self._inbox.get_nowait()
            while True:
                if one is None:
                    ended = True
                else:
                    self._rounds.add(one)
                one = self._inbox.get_nowait()
        except queue.Empty:
            return ended

    def _commit(self, rounds: list[list[_Waiting]]) -> None:
        start = time.perf_counter()
        answers: list[list[Answer]]
        try:
            answers = self.store.commit([[one.sent for one in round_] for round_ in rounds])
            self.failing = None
        except Exception as error:
            _LOG.error("a transaction failed: %s", error, exc_info=not isinstance(error, StoreError))
            self.failing = str(error)
            answers = [[error for _ in round_] for round_ in rounds]
        self.commit_seconds = time.perf_counter() - start
        receipts = [answer for some in answers for answer in some if isinstance(answer, StoredReceipt)]
        published = self.store.published
        for listener in self._listeners:
            try:
                listener(published, receipts)
            except Exception:
                _LOG.exception("a listener failed")
        for round_, some in zip(rounds, answers, strict=True):
            for one, answer in zip(round_, some, strict=True):
                with self._count:
                    self._waiting -= 1
                if isinstance(answer, StoredReceipt):
                    one.answer.set_result(answer)
                else:
                    one.answer.set_exception(answer)

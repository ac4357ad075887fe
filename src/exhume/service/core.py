"""One running service: the store, the writer, the tokens, and who listens."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import sqlalchemy as sa
from fastapi import Request

from exhume.defence.interference import reads_of
from exhume.errors import InputError
from exhume.service.auth import Enrolled, Tokens
from exhume.service.limits import Rates, body_limit
from exhume.service.metrics import Metrics
from exhume.service.problems import ProblemError
from exhume.service.rounds import Gathering
from exhume.service.writer import Writer
from exhume.store import DurableServer, Published, StoredReceipt
from exhume.store.schema import RECEIPTS

__all__ = ["FederationService", "Happened", "Limits"]


@dataclass(frozen=True)
class Limits:
    """What a client may ask of the service.

    Parameters
    ----------
    rows
        Most rows that a message may show on each side: with d and c, this bounds its bytes.
    queue
        Most messages that wait for the writer.
    per_minute, burst
        Messages of one client in a minute on average, and at once.
    body_seconds
        How long a message may take to arrive.
    header_seconds
        How long the head of a request may take to arrive.
    connections
        Most connections at a time.
    listeners, listeners_each
        Most connections that listen for what happens, of all together and of one client.
    pace
        Seconds, or 0: the answer to a message leaves at a whole multiple of it after the message was there, so that
        its time tells no more than how many of them went by.
    """

    rows: int = 1000
    queue: int = 256
    per_minute: float = 6000.0
    burst: int = 200
    body_seconds: float = 30.0
    header_seconds: float = 10.0
    connections: int = 512
    listeners: int = 128
    listeners_each: int = 8
    pace: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.pace <= 10:
            raise InputError("limits.pace", "from 0 to 10 seconds", self.pace)


@dataclass(frozen=True)
class Happened:
    """What happened in one transaction, for those who listen."""

    published: Published
    receipts: list[StoredReceipt]


@dataclass(eq=False)
class FederationService:
    """Everything that the two applications share."""

    store: DurableServer
    limits: Limits = field(default_factory=Limits)
    gathering: Gathering = field(default_factory=Gathering)

    def __post_init__(self) -> None:
        self.tokens = Tokens(self.store.engine)
        self.rates = Rates(self.limits.per_minute, self.limits.burst)
        self.writer = Writer(self.store, self.gathering, self.limits.queue)
        self.most_bytes = body_limit(*self.store.shape, self.limits.rows)
        self.started = time.time()
        self.stop: Callable[[], object] = lambda: None
        """Ends `serve`, from any thread, once it runs."""
        self.refusals = self._refusals()
        self._ears: dict[asyncio.Queue[Happened | None], tuple[asyncio.AbstractEventLoop, str | None]] = {}
        self._mutex = threading.Lock()
        self.metrics = Metrics(self.store, self.writer)
        self.writer.listen(self._tell)

    def client(self, request: Request) -> Enrolled:
        """Return the client whose token a request carries."""
        return self._holder(request, "client")

    def operator(self, request: Request) -> Enrolled:
        """Return the operator whose token a request carries."""
        return self._holder(request, "operator")

    def _holder(self, request: Request, kind: str) -> Enrolled:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            if (found := self.tokens.holder(token.strip(), kind)) is not None:
                return found
            other = "operator" if kind == "client" else "client"
            if self.tokens.holder(token.strip(), other) is not None:
                raise ProblemError(403, f"this is a token of kind {other}; this address takes {kind} tokens")
        headers = {"WWW-Authenticate": 'Bearer realm="exhume"', "Connection": "close"}
        raise ProblemError(401, field="Authorization", allowed=f"Bearer and a {kind} token", headers=headers)

    def code(self, receipt: StoredReceipt) -> str | None:
        """Return what a client may know of a refusal: the rule, where its decision depends on that client alone.

        A rule that looks at others' messages, and the ledger itself, would answer questions about them.
        """
        if receipt.accepted:
            return None
        for rule in self.store.server.admission:
            if (rule.name or type(rule).__name__) == receipt.rule and reads_of(rule) != "everyone":
                return receipt.rule
        return "refused"

    @property
    def ready(self) -> str | None:
        """What keeps the service from taking messages; None where nothing does."""
        if not self.writer.alive:
            return "the writer has stopped"
        return self.writer.failing or self.store.trouble

    def _refusals(self) -> Counter[str]:
        wanted = sa.select(RECEIPTS.c.rule, sa.func.count()).where(sa.not_(RECEIPTS.c.accepted))
        with self.store.engine.connect() as connection:
            return Counter({rule or "": n for rule, n in connection.execute(wanted.group_by(RECEIPTS.c.rule))})

    def _tell(self, published: Published, receipts: list[StoredReceipt]) -> None:
        """Pass news on, in the writer's thread; whoever is too slow to hear misses some and is none the worse."""
        new = self.metrics.seen(receipts)
        for receipt in new:
            if not receipt.accepted:
                self.refusals[receipt.rule or ""] += 1
        with self._mutex:
            ears = list(self._ears.items())
        for ear, (loop, _) in ears:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_put, ear, Happened(published, new))

    async def news(self, who: str | None = None, keep_alive: float = 15.0) -> AsyncIterator[Happened | None]:
        """Yield what happens from now on; None now and then while nothing does. No client has every place."""
        ear: asyncio.Queue[Happened | None] = asyncio.Queue(maxsize=64)
        with self._mutex:
            theirs = 0 if who is None else sum(name == who for _, name in self._ears.values())
            if len(self._ears) >= self.limits.listeners or theirs >= self.limits.listeners_each:
                raise ProblemError(429, "too many connections listen", headers={"Retry-After": "30"})
            self._ears[ear] = asyncio.get_running_loop(), who
        try:
            while self.writer.alive:
                try:
                    one = await asyncio.wait_for(ear.get(), keep_alive)
                except TimeoutError:
                    yield None
                    continue
                if one is None:
                    return
                yield one
        finally:
            with self._mutex:
                self._ears.pop(ear, None)

    def quiet(self) -> None:
        """Answer everybody who waits, and let go of those who listen; nothing is taken any more."""
        self.writer.close()
        with self._mutex:
            ears = list(self._ears.items())
        for ear, (loop, _) in ears:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_put, ear, None)

    def close(self) -> None:
        """Answer everybody who waits, take a last snapshot, let go of the store."""
        self.writer.close()
        self.store.close()


def _put(ear: asyncio.Queue[Happened | None], news: Happened | None) -> None:
    if ear.full():
        ear.get_nowait()
    ear.put_nowait(news)

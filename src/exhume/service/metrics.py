"""What a monitor reads: counts, ages and queues in Prometheus' format."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from exhume.service.writer import Writer
from exhume.store import DurableServer, StoredReceipt

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The figures of one service; nothing in them is of one client or one message."""

    def __init__(self, store: DurableServer, writer: Writer) -> None:
        self._registry = CollectorRegistry()
        self._seq = store.last
        own: Any = {"registry": self._registry}
        self._accepted = Counter("exhume_accepted", "Messages accepted since the start", **own)
        self._deleted = Counter("exhume_deletions", "Messages accepted that delete something", **own)
        self._refused = Counter("exhume_refused", "Messages refused since the start", ["rule"], **own)
        self._commit = Histogram("exhume_commit_seconds", "Time of a transaction", **own)
        self._writer = writer
        for name, about, read in (
            ("exhume_head_serial", "Number of the last head", lambda: store.published.serial),
            ("exhume_head_age_seconds", "Age of the last head", lambda: max(0.0, time.time() - store.published.at)),
            ("exhume_waiting", "Messages that wait for the writer", lambda: writer.waiting),
            ("exhume_submissions", "Logical submissions ever accepted", lambda: store.published.counts.submissions),
            ("exhume_deletions_on_disk", "Deletions that have not left the disk", lambda: store.pending),
            ("exhume_deletions_oldest_seconds", "How long the oldest of them has waited", lambda: store.waited),
            ("exhume_ready", "Whether messages are taken", lambda: float(writer.alive and writer.failing is None)),
        ):
            Gauge(name, about, **own).set_function(read)

    def seen(self, receipts: Sequence[StoredReceipt]) -> list[StoredReceipt]:
        """Count receipts; returns those that are new and no retry's."""
        new = sorted({r.seq: r for r in receipts if r.seq > self._seq}.values(), key=lambda r: r.seq)
        for receipt in new:
            if receipt.accepted:
                self._accepted.inc()
                self._deleted.inc(int(receipt.deletes))
            else:
                self._refused.labels(rule=receipt.rule or "").inc()
        if new:
            self._seq = new[-1].seq
        self._commit.observe(self._writer.commit_seconds)
        return new

    def text(self) -> bytes:
        """Return the figures as a monitor reads them."""
        return generate_latest(self._registry)

"""A service to look at: the bundled digits, honest clients that add and delete, in a folder that goes away."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from exhume.defence import Bounds, Config, Entry, hardened_config
from exhume.protocol.message import itemise
from exhume.protocol.summary import Summary
from exhume.protocol.wire import encode_update
from exhume.service.core import FederationService, Limits
from exhume.store import DurableServer, Forgetting, OperatorKey, ServerSetup

__all__ = ["CLIENTS", "Demo", "demo_service"]

CLIENTS = ("ada", "bo", "cy", "dee")
_BATCH = 12
_OWN = 400
"""Rows of the operator's own: the bounds are measured on them, and they are the noise's first measure."""
_CLASSES = 10


@dataclass(frozen=True)
class Demo:
    """A service of digits, and everybody's tokens."""

    service: FederationService
    tokens: dict[str, str]
    operator: str
    rows: dict[str, tuple[Any, Any]]

    def play(self, address: str, stop: threading.Event, pause: float = 1.0) -> list[threading.Thread]:
        """Let every client add and delete over HTTP until somebody says stop; returns the threads."""
        threads = [
            threading.Thread(target=_client, args=(self, name, address, stop, pause), name=f"demo-{name}", daemon=True)
            for name in self.tokens
        ]
        for thread in threads:
            thread.start()
        return threads


def demo_service(folder: Path) -> Demo:
    """Make the service of the digits in a folder."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    features, labels = digits.data / 16.0, digits.target.astype(np.intp)
    order = np.random.default_rng(0).permutation(len(labels))
    own, theirs = np.split(order, [_OWN])
    bounds = Bounds.measure(features[own], client_rows=len(theirs) // len(CLIENTS) + 1, message_rows=_BATCH)
    config = hardened_config(features.shape[1], bounds=bounds, rows=len(theirs), grows=False)
    accountant = Entry.of("identification", margin=1, action="report")
    defence = Config(**dict(config) | {"accountant": accountant})
    sample = Summary.of(features[own], labels[own], _CLASSES)
    times = len(theirs) / len(own)
    public = Summary(times * sample.gram, times * sample.moment)
    setup = ServerSetup(features.shape[1], _CLASSES, 1e-3, defence=defence, public=public)
    key = OperatorKey.make()
    key.save(folder / "service.key")
    store = DurableServer(str(folder / "store.db"), setup, key, forgetting=Forgetting(seconds=10))
    service = FederationService(store, Limits(rows=_BATCH))
    parts = np.array_split(theirs, len(CLIENTS))
    return Demo(
        service,
        {name: service.tokens.enrol(name) for name in CLIENTS},
        service.tokens.enrol("operator", "operator"),
        {name: (features[part], labels[part]) for name, part in zip(CLIENTS, parts, strict=True)},
    )


def _client(demo: Demo, name: str, address: str, stop: threading.Event, pause: float) -> None:
    """Add batches of rows, and now and then delete one record of those that stand."""
    features, labels = demo.rows[name]
    rng = np.random.default_rng(CLIENTS.index(name))
    left, standing = list(range(len(labels))), list[int]()
    count = 0
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {demo.tokens[name]}"}, timeout=30) as http:
        while not stop.wait(pause * float(rng.uniform(0.5, 1.5))):
            deletes = len(standing) > _BATCH and (not left or rng.random() < 0.3)
            part = [standing.pop(int(rng.integers(len(standing))))] if deletes else left[:_BATCH]
            given = (features[part], labels[part])
            update = itemise(_CLASSES, delete=given) if deletes else itemise(_CLASSES, add=given)
            count += 1
            headers = {"Idempotency-Key": f"demo-{name}-{count}"}
            try:
                http.post("/v1/updates", content=encode_update(update), headers=headers)
            except httpx.HTTPError:
                return  # the service has stopped
            if deletes:
                left += part
            else:
                left, standing = left[_BATCH:], standing + part

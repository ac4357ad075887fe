from __future__ import annotations

import pytest

from exhume import capacity
from exhume.errors import InputError


def test_what_does_not_fit_is_refused_with_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "free_memory", lambda: 10**9)
    capacity.require_memory("dim", 5, 1e9, "this")
    with pytest.raises(InputError, match=r"this would need at least 1\.5 GB; 1\.0 GB are free\); got 5"):
        capacity.require_memory("dim", 5, 1.5e9, "this")
    monkeypatch.setattr(capacity, "free_memory", lambda: None)
    capacity.require_memory("dim", 5, 1e30, "this")


def test_a_federation_needs_its_matrices_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    d = 1000
    one = capacity.SQUARES * 8 * d * d
    monkeypatch.setattr(capacity, "free_memory", lambda: 2 * one)
    capacity.require_federation(d, 2)
    capacity.require_federation(None, 2)
    with pytest.raises(InputError, match="the matrices of 3 processes"):
        capacity.require_federation(d, 3)
    monkeypatch.setattr(capacity, "free_memory", lambda: one)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with pytest.raises(InputError, match="the matrices of 2 processes"):
        capacity.require_federation(d, 0)


def test_free_memory_is_the_least_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    found = capacity.free_memory()
    assert found is None or found > 0
    monkeypatch.setattr(capacity, "_available", lambda: 9)
    monkeypatch.setattr(capacity, "_container", lambda: 5)
    assert capacity.free_memory() == 5
    monkeypatch.setattr(capacity, "_container", lambda: None)
    assert capacity.free_memory() == 9

"""Stores in files. The extra is asked for by each test module: a missing one is a skip with a reason."""

import numpy as np
import pytest


@pytest.fixture
def key():
    from exhume.store import OperatorKey

    return OperatorKey(bytes(range(32)))


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def setup():
    from tests.store.world import SETUP

    return SETUP


@pytest.fixture
def make(tmp_path, key, setup):
    """Open the store of this test, again and again; what is still open at the end is closed."""
    from exhume.store import open as open_store

    made = []

    def opened(given=None, **options):
        options.setdefault("watch", False)
        server = open_store(str(tmp_path / "store.db"), given or setup, key, **options)
        made.append(server)
        return server

    yield opened
    for server in made:
        server.close()


@pytest.fixture
def left():
    """Leave a server as a process that was killed leaves it: its connections and its lock go, nothing is written."""

    def leave(server):
        server._closed.set()
        server._lock.close()
        server._engine.dispose()

    return leave

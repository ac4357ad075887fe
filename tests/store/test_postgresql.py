"""The same store on a real PostgreSQL server, where one is installed."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the extra 'serve'")
pytest.importorskip("cryptography", reason="the store needs the extra 'serve'")
pytest.importorskip("psycopg", reason="a store on PostgreSQL needs the extra 'postgresql'")

from exhume.errors import ConflictError, InputError, StoreError
from exhume.store import Forgetting
from exhume.store import open as open_store
from exhume.store.copying import backup, inspect, restore
from tests.store.test_durable import play, whole
from tests.store.test_forget import numbers
from tests.store.world import SETUP, add, delete, rows

pytestmark = pytest.mark.extras


def programs():
    """Return the folder of initdb and pg_ctl, or None: Debian keeps them off the PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def as_nobody():
    """Become somebody else where this is root: PostgreSQL refuses to run as root."""
    if os.geteuid() == 0:
        import pwd

        user = pwd.getpwnam("postgres" if "postgres" in {one.pw_name for one in pwd.getpwall()} else "nobody")
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}, user
    return {}, None


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Start a database server in a folder of its own; it listens on a socket in that folder only."""
    bin = programs()
    if bin is None:
        pytest.skip("no PostgreSQL server is installed (Debian: apt install postgresql)")
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: the path of a socket has at most 107 bytes
    someone, user = as_nobody()
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    data = folder / "data"

    def run(*words):
        clean = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        subprocess.run(words, check=True, capture_output=True, timeout=120, cwd=folder, env=clean, **someone)

    try:
        run(bin / "initdb", "-D", data, "-U", "exhume", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}'"
        run(bin / "pg_ctl", "-D", data, "-o", options, "-l", folder / "log", "-w", "start")
        yield f"postgresql://exhume@/postgres?host={folder}", data
    finally:
        if (data / "postmaster.pid").exists():
            run(bin / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def url(server):
    from exhume.store.schema import METADATA, engine_for

    engine = engine_for(server[0])
    METADATA.drop_all(engine)
    engine.dispose()
    return server[0]


def test_the_same_store_on_postgresql(url, key, rng, left):
    store = open_store(url, SETUP, key, watch=False, forgetting=Forgetting(updates=5))
    with pytest.raises(StoreError, match="in use by another process"):
        open_store(url, SETUP, key, watch=False)
    play(store, rng)
    update = add(*rows(rng))
    first = store.submit(update, "a", "k")
    assert store.submit(update, "a", "k") == first
    with pytest.raises(ConflictError):
        store.submit(add(*rows(rng)), "a", "k")
    before = whole(store)
    left(store)
    again = open_store(url, SETUP, key, watch=False)
    assert whole(again) == before
    again.close()
    from dataclasses import replace

    with pytest.raises(InputError, match="gamma"):
        open_store(url, replace(SETUP, gamma=0.5), key)


def test_a_deleted_block_leaves_the_tables(server, url, key):
    """An emptied table gets a new file; the write-ahead log is the operator's affair, and the receipt says so."""
    rng = np.random.default_rng(11)
    with open_store(url, SETUP, key, watch=False) as store:
        block = rows(rng, 3)
        store.submit(add(*rows(rng)), "a", "other")
        store.submit(add(*block), "a", "one")
        receipt = store.submit(delete(*block), "a", "gone")
        store.snapshot()
        assert "not the database's write-ahead log" in store.statement(receipt)["statement"]["erased_from"]
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("CHECKPOINT")
    raw = b"".join(p.read_bytes() for p in (server[1] / "base").rglob("*") if p.is_file())
    assert not any(number in raw for number in numbers(block[0]))


def test_backups_go_both_ways(url, key, rng, tmp_path):
    with open_store(url, SETUP, key, watch=False) as store:
        play(store, rng)
        before = whole(store)
        backup(url, tmp_path / "copy.db")
    with open_store(str(tmp_path / "copy.db"), SETUP, key, watch=False) as copy:
        assert whole(copy) == before
    with pytest.raises(InputError, match="a database without a store"):
        restore(tmp_path / "copy.db", url)
    from exhume.store.schema import METADATA, engine_for

    engine = engine_for(url)
    METADATA.drop_all(engine)
    engine.dispose()
    restore(tmp_path / "copy.db", url)
    assert inspect(url, SETUP, key).accepted == before[3].messages


def test_a_lost_connection_is_made_again_and_the_lock_with_it(url, key, rng, left):
    """A restart of the database, or a cut network: fails closed, then goes on, and never beside somebody else."""
    store = open_store(url, SETUP, key, watch=False)
    play(store, rng)
    _cut(url)
    update = add(*rows(rng))
    with pytest.raises(StoreError, match="held again"):
        store.submit(update, "a", "k")
    assert store.submit(update, "a", "k").accepted
    before = whole(store)
    with pytest.raises(StoreError, match="in use by another process"):
        open_store(url, SETUP, key, watch=False)
    _cut(url)
    other = open_store(url, SETUP, key, watch=False)  # takes over while nobody holds it
    assert whole(other) == before and other.submit(add(*rows(rng)), "b", "theirs").accepted
    for attempt in ("m1", "m2"):
        with pytest.raises(StoreError, match="in use by another process"):
            store.submit(add(*rows(rng)), "a", attempt)
    with pytest.raises(StoreError, match="in use"):
        store.snapshot()
    now = whole(other)
    left(other)
    with pytest.raises(StoreError, match="held again"):
        store.try_writing()
    store.try_writing()
    assert whole(store) == now  # what the other one took is there
    store.close()


def _cut(url):
    from exhume.store.schema import engine_for

    engine = engine_for(url)
    with engine.connect() as connection:
        others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL"
        connection.exec_driver_sql(f"SELECT pg_terminate_backend(pid) {others}")
    engine.dispose()

"""Disk full, a store that cannot be written, PostgreSQL, kills: clear errors, nothing lost."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the extra 'serve'")
pytest.importorskip("cryptography", reason="the store needs the extra 'serve'")

from exhume.errors import StoreError
from tests.store.test_durable import whole
from tests.store.world import add, rows

pytestmark = pytest.mark.extras

ROOT = Path(__file__).parents[2]


def test_a_full_disk_loses_nothing(make, rng, tmp_path):
    """No file may grow any more, as on a full disk: SQLite's own writes fail, not a stand-in for them."""
    server = make()
    server.submit(add(*rows(rng)), "a", "one")
    before = whole(server)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (tmp_path / "store.db-wal").stat().st_size
    update = add(*rows(rng, 50))
    import signal

    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000, hard))
    try:
        with pytest.raises(StoreError, match="cannot be written"):
            server.submit(update, "a", "two")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert whole(server) == before
    assert server.receipt("a", "two") is None
    assert server.submit(update, "a", "two").number == 2


READ_ONLY = """
import os, sys
os.setgid(65534); os.setuid(65534)
from exhume.errors import StoreError
from exhume.store import OperatorKey, open
from tests.store.world import SETUP
try:
    open(sys.argv[1], SETUP, OperatorKey(bytes(range(32))))
except StoreError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not write")
def test_a_store_that_cannot_be_written_is_said(make, tmp_path):
    make().close()
    before = (tmp_path / "store.db").read_bytes()
    folder = tmp_path
    while folder != folder.parent:  # nobody must reach it
        if not folder.stat().st_mode & 0o005:
            if folder.owner() != "root" or "pytest" not in str(folder):
                pytest.skip(f"'{folder}' is closed to others")
            folder.chmod(0o755)
        folder = folder.parent
    (tmp_path / "store.db").chmod(0o644)
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(tmp_path / "store.db")], capture_output=True, text=True, env=environment
    )
    if "PermissionError" in done.stderr or "ModuleNotFoundError" in done.stderr:
        pytest.skip("nobody cannot read this installation")
    assert "cannot be written" in done.stdout, done.stderr
    assert (tmp_path / "store.db").read_bytes() == before


def test_kills_lose_nothing_and_double_nothing():
    """The short form of `python benchmarks/crash.py --kills 1000 --json`."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "crash.py"), "--kills", "12", "--seed", "5", "--json"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == 12 and found["acknowledged"] > 12
    assert [found[name] for name in ("lost", "doubled", "never_sent", "other_receipt", "ledger_differs")] == [0] * 5

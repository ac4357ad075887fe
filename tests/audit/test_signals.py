import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exhume.audit.signals import shielded, stopping


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_becomes_an_interrupt_and_its_handler_comes_back(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), stopping():
        os.kill(os.getpid(), number)
        time.sleep(1)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_shielded_signal_is_heard_afterwards(number):
    done = []
    with pytest.raises(KeyboardInterrupt), stopping():
        with shielded():
            os.kill(os.getpid(), number)
            time.sleep(0.01)
            done.append("restored")
        done.append("never")
    assert done == ["restored"]


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopping():
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGHUP, before)


SLOW = """
import time, json, pathlib
from tests.audit.servers import small_server

class Slow:
    def __init__(self):
        self.server = small_server()
        self.inner = self.server.as_target("auditor")
        self.start = self.server.ledger.summary.moment
        self.sent = 0

    def head(self):
        return self.inner.head()

    def submit(self, update):
        head = self.inner.submit(update)
        self.sent += 1
        off = abs(self.server.ledger.summary.moment - self.start).max()
        pathlib.Path("off.json").write_text(json.dumps([self.sent, float(off)]))
        if off > 1000:
            pathlib.Path("standing").touch()
            time.sleep(0.5)
        return head

def target():
    return Slow()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_command_takes_its_probes_back_when_it_is_stopped(tmp_path, number):
    (tmp_path / "slow.py").write_text(SLOW)
    root = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, "-c", "from exhume.cli.main import main; main()", "audit", "--target", "slow:target"]
    process = subprocess.Popen(
        [*command, "--i-operate-this-server", "--out", "report"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for _ in range(600):
        if (tmp_path / "standing").exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    off = json.loads((tmp_path / "off.json").read_text())[1]
    assert off < 1e-6, said
    assert "Verdict: NONE" not in said

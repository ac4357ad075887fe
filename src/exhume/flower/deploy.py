"""A Flower deployment on this machine: one SuperLink and some SuperNodes as processes, with TLS and node logins.

Everything listens on 127.0.0.1 and talks to it. Certificates and keys are made for the deployment and stay in its
folder. A SuperNode that ends is started again: Flower refuses a node that logs in again within about a minute of its
last sign of life, so the first tries may fail.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from exhume.errors import ExhumeError, InputError
from exhume.flower import QUIET
from exhume.flower.certificates import write_certificate, write_key

__all__ = ["Deployment", "deployed"]

HOST = "127.0.0.1"
CONNECTION = "exhume"
"""The name of the deployment in Flower's own configuration."""

_ENDED = ("finished:completed", "finished:failed", "finished:stopped")


@dataclass
class Deployment:
    """Processes of one deployment; make it with `deployed`.

    Parameters
    ----------
    folder
        Where certificates, keys, databases and logs go.
    nodes
        What each SuperNode is configured with (Flower's ``--node-config``).
    environment
        Variables for all processes, over those that are set.
    """

    folder: Path
    nodes: Sequence[Mapping[str, str | int]]
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    _logs: list[IO[bytes]] = field(default_factory=list)
    _ports: dict[int, int] = field(default_factory=dict)

    def prepare(self) -> None:
        """Make certificates, node keys and Flower's configuration."""
        if not self.nodes:
            raise InputError("nodes", "at least one", "none")
        self.folder = self.folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = self.port or _free_port()
        write_certificate(self.folder, HOST)
        for k in range(len(self.nodes)):
            write_key(self.folder / f"node{k}")
            self._ports[k] = _free_port()
        home = self.folder / "flwr"
        home.mkdir(exist_ok=True)
        root = json.dumps(str((self.folder / "ca.pem").resolve()))
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\naddress = "{HOST}:{self.port}"\n'
            f"root-certificates = {root}\n",
            encoding="utf-8",
        )

    def env(self) -> dict[str, str]:
        """Return the variables of every process."""
        own = {"FLWR_HOME": str(self.folder / "flwr"), "PYTHONUNBUFFERED": "1"}
        bin_folder = str(Path(sys.executable).parent)
        path = os.pathsep.join([bin_folder, os.environ.get("PATH", "")])
        return {**os.environ, **QUIET, **own, "PATH": path, **self.environment}

    def start_superlink(self) -> None:
        """Start the SuperLink, on the database of an earlier one if there is one, and wait until it listens."""
        f = self.folder
        command = [_tool("flower-superlink"), "--host", HOST, "--port", str(self.port), "--enable-supernode-auth"]
        command += ["--ssl-ca-certfile", str(f / "ca.pem"), "--ssl-certfile", str(f / "server.pem")]
        command += ["--ssl-keyfile", str(f / "server.key"), "--database", str(f / "superlink.db")]
        self._start("superlink", [*command, "--disable-runtime-dependency-installation"])
        _listening(self.port, self.processes["superlink"], self.log("superlink"))

    def register(self) -> list[int]:
        """Tell the SuperLink the public key of every node; returns the ids that it gave them."""
        found = []
        for k in range(len(self.nodes)):
            key = str(self.folder / f"node{k}.pub")
            said = self.flwr("supernode", "register", key, CONNECTION, "--format", "json")
            found.append(int(_json(said)["node-id"]))
        return found

    def start_node(self, k: int) -> None:
        """Start one SuperNode."""
        f = self.folder
        told = " ".join(f"{name}={json.dumps(value)}" for name, value in self.nodes[k].items())
        command = [_tool("flower-supernode"), "--superlink", f"{HOST}:{self.port}", "--host", HOST]
        command += ["--port", str(self._ports[k]), "--root-certificates", str(f / "ca.pem")]
        command += ["--auth-supernode-private-key", str(f / f"node{k}"), "--node-config", told]
        command += ["--ssl-ca-certfile", str(f / "ca.pem"), "--ssl-certfile", str(f / "server.pem")]
        self._start(f"node{k}", [*command, "--ssl-keyfile", str(f / "server.key")])

    def supervise(self) -> list[str]:
        """Start again what has ended of the SuperNodes; returns their names. To be called now and then."""
        ended = [f"node{k}" for k in range(len(self.nodes)) if self._ended(f"node{k}")]
        for name in ended:
            self.restarts[name] = self.restarts.get(name, 0) + 1
            self.start_node(int(name[4:]))
        return ended

    def _ended(self, name: str) -> bool:
        process = self.processes.get(name)
        return process is not None and process.poll() is not None

    def flwr(self, *arguments: str, timeout: float = 60.0) -> str:
        """Run Flower's command; returns its output."""
        done = subprocess.run(
            [_tool("flwr"), *arguments], env=self.env(), capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode:
            raise ExhumeError(f"flwr {arguments[0]} failed: {(done.stderr + done.stdout).strip()[-2000:]}")
        return done.stdout

    def run(self, app: Path, config: Mapping[str, Any] | None = None) -> int:
        """Submit a run; returns its id."""
        told = " ".join(f"{name}={json.dumps(value)}" for name, value in (config or {}).items())
        extra = ["--run-config", told] if told else []
        return int(_json(self.flwr("run", str(app), CONNECTION, "--format", "json", *extra))["run-id"])

    def status(self, run: int) -> str:
        """Return the status of a run, in Flower's words."""
        runs = _json(self.flwr("list", CONNECTION, "--run-id", str(run), "--format", "json"))["runs"]
        return str(runs[0]["status"])

    def wait(self, run: int, timeout: float, pause: float = 3.0) -> str:
        """Wait until a run has ended, starting nodes again that end meanwhile; returns its last status."""
        end = time.monotonic() + timeout
        while (status := self.status(run)) not in _ENDED:
            if time.monotonic() > end:
                raise ExhumeError(f"run {run} is still {status} after {timeout:g} s")
            self.supervise()
            time.sleep(pause)
        return status

    def log(self, name: str) -> str:
        """Return what a process has written so far."""
        file = self.folder / f"{name}.log"
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    def kill(self, name: str) -> None:
        """Kill a process and its children at once, as a crash would."""
        process = self.processes.pop(name, None)
        if process is not None:
            _signal(process, signal.SIGKILL)
            process.wait(10)

    def stop(self) -> None:
        """End every process, SuperNodes first."""
        for name in sorted(self.processes):
            process = self.processes.pop(name)
            _signal(process, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
            _signal(process, signal.SIGKILL)
            process.wait(10)
        for log in self._logs:
            log.close()
        self._logs.clear()

    def _start(self, name: str, command: list[str]) -> None:
        log = (self.folder / f"{name}.log").open("ab")
        self._logs.append(log)
        # A session of its own: its children end with it.
        self.processes[name] = subprocess.Popen(
            command,
            env=self.env(),
            cwd=self.folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


@contextmanager
def deployed(
    folder: Path, nodes: Sequence[Mapping[str, str | int]], environment: Mapping[str, str] | None = None
) -> Iterator[Deployment]:
    """Run a deployment while the block runs: SuperLink up, every node registered and started."""
    made = Deployment(folder, nodes, environment or {})
    made.prepare()
    try:
        made.start_superlink()
        made.register()
        for k in range(len(nodes)):
            made.start_node(k)
        yield made
    finally:
        made.stop()


def _free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _tool(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ExhumeError(f"'{name}' is not there: pip install 'exhume[flower]'")
    return found


def _listening(port: int, process: subprocess.Popen[bytes], log: str, timeout: float = 60.0) -> None:
    end = time.monotonic() + timeout
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.2)
    raise ExhumeError(f"the SuperLink does not listen on port {port}: {log[-2000:]}")


def _json(text: str) -> Any:
    """Return the JSON object in what Flower's command printed."""
    start = text.find("{")
    if start < 0:
        raise ExhumeError(f"Flower answered without JSON: {text.strip()[-500:]}")
    found, _ = json.JSONDecoder().raw_decode(text[start:])
    if not found.get("success", True):
        raise ExhumeError(f"Flower refused: {text.strip()[-1000:]}")
    return found


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)

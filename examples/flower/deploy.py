"""Run this app between processes of this machine: a SuperLink and four SuperNodes, with TLS and node logins.

    python deploy.py FOLDER              # four honest nodes
    python deploy.py FOLDER --attack     # two honest nodes and a malicious one, which reads what another deletes

The folder keeps certificates, keys, logs and the store: a second run with more --rounds goes on from the first.
"""

import argparse
import signal
import sys
import time
from pathlib import Path

import numpy as np
from exhume_flower.task import Task

import exhume as ex
from exhume.flower.deploy import Deployment, deployed
from exhume.flower.target import Mailbox, MailboxTarget

HERE = Path(__file__).parent


def finish(made: Deployment, run: int) -> None:
    """Wait for a run and print what its server wrote."""
    status = made.wait(run, timeout=1800, pause=10)
    for line in made.flwr("log", str(run), "exhume", "--show").splitlines():
        if line.startswith("exhume: "):
            print(line)
    print(f"run {run}: {status}")


def honest(folder: Path, rounds: int) -> None:
    """Four nodes add their rows over three rounds; in the fourth each has ten deleted."""
    with deployed(folder, [{"partition-id": k} for k in range(4)]) as made:
        finish(made, made.run(HERE, {"rounds": rounds}))


def attack(folder: Path) -> None:
    """Identify the server's state before and after round 4, in which node 0 has one record deleted."""
    task = Task(dim=10, partitions=2, rows=60, adding=1, unlearn_round=4, forget=1, forgetful=0)
    config = {name.replace("_", "-"): value for name, value in vars(task).items()}
    config |= {"rounds": 7, "nodes": 3, "timeout": 600.0, "grid": 0.0, "store": "attacked.db"}
    letters = (folder / "mailbox").resolve()
    letters.mkdir(parents=True, exist_ok=True)
    nodes = [{"partition-id": k} for k in range(task.partitions)]
    with deployed(folder, [*nodes, {"mailbox": str(letters)}]) as made:
        run = made.run(HERE, config)
        mailbox = Mailbox(letters)
        attacker = ex.Attack(MailboxTarget(mailbox, timeout=600))
        probe = ex.probes.designed(task.dim, 10, scale=1e4)
        before = attacker.identify(probe)
        print(f"identified the state before round {task.unlearn_round} from {attacker.cost.responses} heads")
        while mailbox.news().number < task.unlearn_round:
            time.sleep(0.2)
        after = attacker.identify(probe)
        sample = ex.recover.difference(before, after).block.as_sample()
        found = task.features()
        row = task.partition(0)[0]
        truth, label = found.train_features[row], found.train_labels[row]
        error = np.linalg.norm(sample.feature - truth) / np.linalg.norm(truth)
        print(
            f"node 0 had a record deleted: its label is {label}, recovered {sample.label}; features off by {error:.1e}"
        )
        finish(made, run)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--attack", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the processes are ended, too
    attack(options.folder) if options.attack else honest(options.folder, options.rounds)

"""The whole attack at the size of RanPAC: d up to 10,000 random features, 100 classes, time and memory of every step.

Features are `random-relu` of MNIST images, or, where MNIST is not at hand, of the bundled digits, enlarged to 28 x 28
and moved about by up to four pixels; n rows go into the ledger in blocks of 2,000, so that the features are never in
memory as a whole. MNIST has 10 classes and RanPAC's tasks 100: class ``10 k + j`` is digit k nearest, in pixels, to
the j-th of ten images of that digit, drawn by a seed.

Steps, each with wall time, processor time and the largest memory while it ran (`peak_gb`; the ledger is in it):

- ``set-up``: the ledger of n rows, block by block, and its factor; its solver is "low-rank";
- ``identify float64``, ``identify float32``: one designed identification through the server, all answers and the state;
- ``delete float64``, ``delete float32``: the server's part of 20 single deletions and of taking them back;
- ``recover float64``, ``recover float32``: the attacker's part, `recover.rank_one` of each; `labels` says how many;
- ``own data``: identification from 1.2 d rows of the attacker's own, up to d = 4,096;
- ``hardened deletion``: one record's deletion on the hardened server (its start and one addition are not in the time);
- ``exposure``: a designed run under the accountant, and in `time_s` what `exposure()` takes at its end.

``attack`` sums identify, delete and recover of one precision, the slower one: the goal at d = 10,000 on two cores is
600 s and 6 GB. `exponent` is the growth of that sum. Every size runs in a process of its own.

    OMP_NUM_THREADS=2 python benchmarks/scale.py [--dims 1024 2048 4096 10000] [--rows 20000] [--json]
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

import exhume as ex
from exhume.attack import estimate, probes, recover
from exhume.attack.session import Attack
from exhume.data.encoders.random_relu import RandomRelu
from exhume.data.sets import load
from exhume.defence import Bounds, IdentificationAccountant
from exhume.errors import DataError
from exhume.protocol.message import itemise

CLASSES, GAMMA, DELETIONS, BLOCK = 100, 1e-3, 20, 2000
OWN_DATA_UP_TO = 4096
GIGABYTE = 1e9


class Meter:
    """Wall time, processor time and peak memory of named steps."""

    def __init__(self):
        self.time_s, self.cpu_s, self.peak_gb = {}, {}, {}

    @contextmanager
    def step(self, name):
        _forget_peak()
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.time_s[name] = self.time_s.get(name, 0.0) + time.perf_counter() - wall
        self.cpu_s[name] = self.cpu_s.get(name, 0.0) + time.process_time() - cpu
        self.peak_gb[name] = max(self.peak_gb.get(name, 0.0), _peak())


def _forget_peak():
    with suppress(OSError):  # where there is none, the peak is that of the process so far
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak():
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM:"))) / GIGABYTE
    except (OSError, StopIteration):
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIGABYTE


def images(rows, rng):
    """Return images and digits: of MNIST, or of enlarged digits moved about."""
    try:
        found = load("mnist", download=False)
        order = rng.permutation(len(found.train_labels))[:rows]
        return "mnist", found.train_images[order], found.train_labels[order]
    except DataError:
        found = load("digits")
    pick = rng.integers(0, len(found.train_labels), rows)
    large = np.zeros((rows, 28, 28), dtype=np.uint8)
    for i, (small, (x, y)) in enumerate(zip(found.train_images[pick], rng.integers(0, 5, (rows, 2)), strict=True)):
        large[i, x : x + 24, y : y + 24] = np.kron(small, np.ones((3, 3), dtype=np.uint8))
    return "enlarged digits", large, found.train_labels[pick]


def hundred_classes(pictures, digits, rng):
    """Return class 10 k + j: digit k, nearest to the j-th of ten drawn images of it."""
    flat = pictures.reshape(len(pictures), -1).astype(np.float32)
    labels = np.empty(len(digits), dtype=np.intp)
    for k in range(10):
        of_it = np.flatnonzero(digits == k)
        first = flat[rng.choice(of_it, 10, replace=False)]
        gaps = -2.0 * flat[of_it] @ first.T + np.square(first).sum(axis=1)
        labels[of_it] = 10 * k + gaps.argmin(axis=1)
    return labels


class Data:
    """Rows of pictures, encoded when they are needed."""

    def __init__(self, d, rows):
        rng = np.random.default_rng(0)
        self.source, self.pictures, digits = images(rows, rng)
        self.labels = hundred_classes(self.pictures, digits, rng)
        self.encoder = RandomRelu(self.pictures[0].size, d, seed=0)

    def features(self, rows):
        return self.encoder.encode(self.pictures[rows]).astype(np.float64)

    def ledger(self):
        """Sum the rows up block by block."""
        parts = (slice(at, at + BLOCK) for at in range(0, len(self.labels), BLOCK))
        total = ex.Summary.of_blocks(((self.features(part), self.labels[part]) for part in parts), CLASSES)
        return ex.Ledger(total, GAMMA, solver="low-rank")


def attacked(meter, data, ledger, d, precision):
    """Identify, let 20 records be deleted one by one, read each off: returns the figures of one precision."""
    server = ex.Server(ledger, release=ex.Heads(precision))
    server.head()
    attack = Attack(server.as_target("mallory"))
    with meter.step(f"identify {precision}"):
        state = estimate_of(precision)(attack.run(probes.designed(d, CLASSES)))
    rows = np.random.default_rng(1).choice(len(data.labels), DELETIONS, replace=False)
    right, gaps, sure = 0, [], 0
    for row in rows:
        feature, label = data.features([row]), data.labels[[row]]
        gone = ex.Update.deleting(ex.Summary.of(feature, label, CLASSES))
        with meter.step(f"delete {precision}"):
            server.submit(gone, "alice")
        with meter.step(f"recover {precision}"):
            found = recover.rank_one(state, attack.observe(), nonnegative=True)
        with meter.step(f"delete {precision}"):
            server.submit(gone.undo(), "alice")
        right, sure = right + int(found.label == label[0]), sure + bool(found.known)
        gaps.append(float(np.linalg.norm(found.feature - feature[0]) / np.linalg.norm(feature[0])))
    return {
        "labels": f"{right} of {DELETIONS}",
        "sure": f"{sure} of {DELETIONS}",
        "feature_error": float(np.median(gaps)),
        "state_error": state_error(state, ledger),
    }


def estimate_of(precision):
    return estimate.direct if precision == "float64" else estimate.symmetric


def state_error(state, ledger):
    """Return the relative error of A, band by band."""
    gram, off, size = ledger.summary.gram, 0.0, 0.0
    for i in range(0, len(gram), BLOCK):
        band = gram[i : i + BLOCK].copy()
        band[np.arange(len(band)), np.arange(i, i + len(band))] += GAMMA
        off, size = off + np.linalg.norm(state.A[i : i + BLOCK] - band) ** 2, size + np.linalg.norm(band) ** 2
    return float(np.sqrt(off / size))


def own_data(meter, data, ledger, d):
    server = ex.Server(ledger)
    server.head()
    rows = np.arange(int(1.2 * d) + CLASSES)
    probe = probes.own_data(
        data.features(rows), data.labels[rows], CLASSES, responses=2 * -(-d // CLASSES), rng=np.random.default_rng(0)
    )
    with meter.step("own data"):
        state = estimate.direct(Attack(server.as_target("mallory")).run(probe))
    return {"state_error": state_error(state, ledger), "live": d if state.live is None else len(state.live)}


def hardened_deletion(meter, data, ledger):
    features = data.features(slice(0, 200))
    server = ex.hardened(
        ledger, bounds=Bounds.measure(features, client_rows=1000), rows=len(data.labels), key="00" * 32
    )
    row = features[:1], data.labels[:1]
    added = server.submit(itemise(CLASSES, add=row), "alice")
    with meter.step("hardened deletion"):
        deleted = server.submit(itemise(CLASSES, delete=row), "alice")
    assert added.accepted and deleted.accepted, (added, deleted)


def exposure(meter, ledger, d):
    accountant = IdentificationAccountant(1, action="report")
    server = ex.Server(ledger, accountant=accountant)
    server.head()
    with meter.step("accounted run"):
        target = server.as_target("mallory")
        for step in probes.designed(d, CLASSES).steps():
            target.submit(step.update)
    with meter.step("exposure"):
        found = server.exposure("mallory")
    return {"rank": found.rank, "needed": found.needed, "condition": found.condition, "error": found.state_error}


def measure(d, rows, skip):
    meter, out = Meter(), {"d": d, "classes": CLASSES, "rows": rows}
    data = Data(d, rows)
    with meter.step("set-up"):
        ledger = data.ledger()
        ledger.head()
    for precision in ("float64", "float32"):
        out[precision] = attacked(meter, data, ledger, d, precision)
    if d <= OWN_DATA_UP_TO and "own data" not in skip:
        out["own data"] = own_data(meter, data, ledger, d)
    if "exposure" not in skip:
        out["exposure"] = exposure(meter, ledger, d)
    if "hardened deletion" not in skip:
        hardened_deletion(meter, data, data.ledger() if d <= OWN_DATA_UP_TO else ledger)
    parts = {p: [f"{step} {p}" for step in ("identify", "delete", "recover")] for p in ("float64", "float32")}
    meter.time_s["attack"] = max(sum(meter.time_s[s] for s in steps) for steps in parts.values())
    meter.cpu_s["attack"] = max(sum(meter.cpu_s[s] for s in steps) for steps in parts.values())
    meter.peak_gb["attack"] = max(meter.peak_gb[s] for steps in parts.values() for s in steps)
    return out | {"source": data.source, "time_s": meter.time_s, "cpu_s": meter.cpu_s, "peak_gb": meter.peak_gb}


def apart(d, options):
    """Measure one size in a process of its own, whose memory nobody used before."""
    command = [sys.executable, __file__, "--one", str(d), "--rows", str(options.rows), "--skip", *options.skip]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=[1024, 2048, 4096, 10_000])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--skip", nargs="*", default=[], help="steps to leave out: 'own data', exposure, ...")
    parser.add_argument("--one", type=int, help="measure this size in this process")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(options.one, options.rows, options.skip)))
        return
    rows = [apart(d, options) for d in options.dims]
    sizes, seconds = ([np.log(r["d"]) for r in rows], [np.log(r["time_s"]["attack"]) for r in rows])
    exponent = float(np.polyfit(sizes, seconds, 1)[0]) if len(rows) > 1 else None
    if options.json:
        print(json.dumps({"classes": CLASSES, "rows": options.rows, "sizes": rows, "exponent": exponent}))
        return
    for r in rows:
        print(f"d = {r['d']:,}, c = {CLASSES}, {r['rows']:,} rows of {r['source']}")
        for step, seconds in r["time_s"].items():
            print(
                f"  {step:18s} {seconds:8.1f} s ({r['cpu_s'][step]:8.1f} s of processor), {r['peak_gb'][step]:.2f} GB"
            )
        for precision in ("float64", "float32"):
            got = r[precision]
            print(
                f"  {precision}: labels {got['labels']}, sure of {got['sure']}, median feature error "
                f"{got['feature_error']:.1e}, A off by {got['state_error']:.1e}"
            )
    if exponent is not None:
        print(f"growth of the attack: d^{exponent:.2f}")


if __name__ == "__main__":
    main()

"""Every figure of docs/performance.md from one run: measures, reckons the limits, and renews the tables.

The machine's rates come first: what `dgemm` and LAPACK's factorisations reach here, on one thread and on all. A limit
is the operations that a step cannot do without, products and solves at the rate of `dgemm`, factorisations at that of
`potrf`; the share of the limit is limit over measured. The other benchmarks run as they are, with ``--json``, one after
another, then some whole commands; run this on a machine that does nothing else (about 40 minutes on two cores).

Every part is saved when it is done, beside the JSON file: an interrupted run goes on from there, if the code is the
same. ``--reuse`` measures nothing and makes the tables of what is saved; ``--again`` measures the named parts anew,
where something else ran beside them.

    python benchmarks/performance.py [--page docs/performance.md] [--json docs/performance.json] [--reuse] [--quick]
        [--again PART ...]
"""

import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dgeqrf, dgeqrf_lwork, dpotrf
from threadpoolctl import threadpool_limits

import exhume

HERE = Path(__file__).parent
C, RESPONSES = 10, 104  # of benchmarks/identify.py
BENCHMARKS = ("ledger", "identify", "accountant", "message_size", "scale")
CELLS = {"designed": "designed", "data": "attacker data, m = 104"}


def best(call, turns=5):
    taken = []
    for _ in range(turns):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)


def rates(d, threads):
    """Return operations a second of a product, a Cholesky and a QR factorisation of this size."""
    with threadpool_limits(threads):
        a = np.asfortranarray(np.random.default_rng(0).standard_normal((d, d)))
        spd = np.asfortranarray(a @ a.T + d * np.eye(d))
        space = int(dgeqrf_lwork(d, d)[0])
        return {
            "dgemm": 2 * d**3 / best(lambda: dgemm(1.0, a, a)),
            "potrf": d**3 / 3 / best(lambda: dpotrf(spd, lower=1, clean=0)),
            "geqrf": 4 / 3 * d**3 / best(lambda: dgeqrf(a, lwork=space)),
        }


def run(name, *options):
    """Run another benchmark and return what it prints as JSON."""
    threads = os.cpu_count() if name == "scale" else 1
    print(f"{name} {' '.join(options)}", file=sys.stderr, flush=True)
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    command = [sys.executable, str(HERE / f"{name}.py"), *options, "--json"]
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(command, stdout=printed, env=environment)
        gb = ended(process, f"benchmarks/{name}.py")
        printed.seek(0)
        return json.load(printed) | {"gb": gb}


def ended(process, what, said=None):
    """Wait for a process, which must succeed; returns its largest memory, or that of its largest child."""
    _, status, used = os.wait4(process.pid, 0)
    if (code := os.waitstatus_to_exitcode(status)) != 0:
        raise SystemExit(f"performance: {what} ended with {code}{'' if said is None else ': ' + text_of(said)}")
    return 1024 * used.ru_maxrss / 1e9


def text_of(stream):
    stream.seek(0)
    return stream.read()


def command(*words):
    """Run a whole command into an empty folder; returns its seconds, largest memory and what it said it would need."""
    print(f"exhume {' '.join(words)}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as said:
        home = ["--home", f"{folder}/home"] if words[0] == "paper" else []
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("exhume")), *words, *home, "--out", f"{folder}/out"],
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        gb = ended(process, f"exhume {' '.join(words)}", said)
        seconds = time.perf_counter() - start
        text = text_of(said)
        found = {"command": f"exhume {' '.join(words)}", "seconds": seconds, "gb": gb}
        forecast = re.search(r"about ([\d.]+ GB) of memory and ([\d,.]+ \w+)\.", text)
        if forecast is not None:
            found["forecast"] = list(forecast.groups())
        report = Path(folder, "out", "report.json")
        if report.exists():
            found["findings"] = json.loads(report.read_text(encoding="utf-8"))["findings"]
        return found


def parts(quick):
    """Return what is measured, by name, in order."""
    small, dims = ["512"], ["512", "1024"] if quick else ["512", "1024", "2048", "4096"]
    scale = ["--dims", "512", "--rows", "3000"] if quick else []
    commands = [
        ("audit",),
        ("paper", "run", "designed_recovery", "attacker_data", "--quick", "--jobs", "2"),
        *(("audit", "--data", "mnist", "--encoder", "random-relu", "--dim", d) for d in ("4096", "10000")),
    ]
    commands = commands[:1] if quick else commands
    return {
        "rates": lambda: {d: {"one": rates(int(d), 1), "all": rates(int(d), os.cpu_count())} for d in dims},
        "ledger": lambda: run("ledger", "--dims", *dims),
        "identify": lambda: run("identify", *(["--dims", *small, "--sampled", "1"] if quick else [])),
        "accountant": lambda: run("accountant", "--dims", *(small if quick else dims[:3])),
        "message_size": lambda: run("message_size"),
        "scale": lambda: run("scale", *scale),
    } | {" ".join(words): lambda words=words: command(*words) for words in commands}


def machine():
    """Return what was measured, and on what."""
    return {
        "cores": os.cpu_count(),
        "processor": next(iter(re.findall(r"model name\s*: (.*)", _text("/proc/cpuinfo"))), platform.machine()),
        "memory_gb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "exhume": exhume.__version__,
    }


def _text(path):
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def measured(quick, place):
    """Measure every part that an interrupted run of the same code has not measured yet."""
    saved = place.with_suffix(".partial.json")
    code = code_of(quick)
    found = json.loads(saved.read_text(encoding="utf-8")) if saved.exists() else {}
    if found.get("code") != code:
        found = {"code": code, "machine": machine(), "date": str(datetime.datetime.now(datetime.UTC).date())}
    for name, measure in parts(quick).items():
        if name in found:
            continue
        start = time.perf_counter()
        found[name] = measure()
        print(f"  {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        saved.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    del found["code"]
    place.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    saved.unlink()
    return found


def measured_again(names, place):
    """Measure some parts of a finished run anew."""
    found, all_parts = json.loads(place.read_text(encoding="utf-8")), parts(False)
    for name in names:
        if name not in all_parts:
            raise SystemExit(f"performance: no part '{name}'; there are {', '.join(all_parts)}")
        found[name] = all_parts[name]()
        place.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def code_of(quick):
    """Return a hash of the package, of the benchmarks and of what was asked for."""
    files = sorted([*Path(exhume.__file__).parent.rglob("*.py"), *HERE.glob("*.py")])
    whole = hashlib.sha256(str(quick).encode())
    for file in files:
        whole.update(file.read_bytes())
    return whole.hexdigest()[:16]


def limit(rate, products=0.0, factorisations=0.0):
    """Return the least seconds of so many operations in products and solves, and in factorisations."""
    return products / rate["dgemm"] + factorisations / rate["potrf"]


def identification(rate, d, read_off=False):
    """Limit of one designed identification: the server's solves, the estimate, its checks."""
    if read_off:
        return limit(rate, 2 * d**3, d**3)
    return limit(rate, (2 + 2 + 1 + 1 + 2) * d**3, (4 / 3 + 2 / 3) * d**3)


def cell_trial(rate, name, d=512):
    """Limit of one trial of a cell: the deletion, the server's answers, one identification, the replay.

    An answer of attacker data is a factorisation, two triangular solves (2 d^2 c) and the attacker's product with the
    gram that it added (2 d^2 c); its cancellation is one more factorisation.
    """
    if name == "designed":
        return identification(rate, d) + limit(rate, 0, 2 * d**3 / 3)
    n = RESPONSES * C
    server = limit(rate, RESPONSES * 4 * d * d * C, (RESPONSES + 3) * d**3 / 3)
    factors = 2 * (2 * n * d * d - 2 / 3 * d**3) + 2 / 3 * d**3
    return server + limit(rate, 2 * (4 * n * d * d - 2 * d**3 + 2 * d**3) + 2 * d**3, factors)


def nearest(found, d):
    return found["rates"][min(found["rates"], key=lambda size: abs(int(size) - int(d)))]


def table(head, rows):
    return "\n".join(
        ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(r) + " |" for r in rows)]
    )


def rate_table(found):
    rows = [
        [
            f"{int(d):,}",
            *(
                f"{found['rates'][d][who][name] / 1e9:.0f}"
                for who in ("one", "all")
                for name in ("dgemm", "potrf", "geqrf")
            ),
        ]
        for d in found["rates"]
    ]
    return table(["d", "dgemm", "potrf", "geqrf", "all cores: dgemm", "potrf", "geqrf"], rows)


def ledger_table(found):
    of, rows = found["ledger"], []
    for d, ratio in of["update_over_potrf"].items():
        rate = nearest(found, d)["one"]
        least = limit(rate, 2 * int(d) ** 2 * C, int(d) ** 3 / 3) / limit(rate, 0, int(d) ** 3 / 3)
        refit = of["refit_over_update"].get(d)
        low = [
            f"{of['low_rank_over_potrf'][b][d]:.3f} ({of['low_rank_amortised_over_potrf'][b][d]:.3f})"
            for b in ("1", "16")
        ]
        goal = {"512": "1.0", "2048": "0.15", "4096": "0.08"}.get(d, "")
        refitted = "" if refit is None else f"{refit:.0f}"
        limits = [f"{low_rank(rate, int(d), b):.3f}" for b in (1, 16)]
        rows.append(
            [f"{int(d):,}", f"{ratio:.2f}", f"{least:.2f}", low[0], goal, limits[0], low[1], limits[1], refitted]
        )
    head = ["d", "dense", "limit", "low rank, b = 1", "goal", "limit", "low rank, b = 16", "limit", "refit over update"]
    return table(head, rows)


def low_rank(rate, d, b):
    """Limit of a change of b rows over a factorisation: a solve for its columns, and the residual of the new head."""
    return limit(rate, 2 * d * d * b + 2 * d * d * C) / limit(rate, 0, d**3 / 3)


def identify_table(found):
    of, rows = found["identify"], []
    for d, speedup in of["identify_speedup"].items():
        rate, seconds = nearest(found, d)["one"], of["seconds"][d]
        least = identification(rate, int(d), read_off=int(d) >= 2048)
        rows.append(
            [
                f"{int(d):,}",
                f"{speedup:.1f}",
                f"{seconds:.2f} s",
                f"{least:.2f} s ({least / seconds:.0%})",
                f"{of['read_off_speedup'][d]:.1f}",
                f"{of['error'][d]:.1e}",
                f"{of['read_off_error'][d]:.1e}",
            ]
        )
    head = ["d", "times faster", "takes", "limit (share)", "read off: times faster", "error of A", "read off: error"]
    return table(head, rows)


def cell_table(found):
    of, rate, rows = found["identify"], nearest(found, 512)["one"], []
    goals = {"designed": 15, "data": 10}
    for name, words in CELLS.items():
        seconds = of[f"{name}_cell_seconds"]
        least = 100 * cell_trial(rate, name) / of["jobs"]
        most = of[f"{name}_cell_speedup"] * seconds / least
        rows.append(
            [
                words,
                f"{of[f'{name}_cell_speedup']:.1f} (goal {goals[name]})",
                f"{seconds:.1f} s",
                f"{least:.1f} s ({least / seconds:.0%})",
                f"{most:.0f}",
            ]
        )
    return table(["cell of 100 deletions, d = 512", "times faster", "takes", "limit (share)", "at the limit"], rows)


def accountant_table(found):
    rows = []
    for r in found["accountant"]["rows"]:
        typical, worst, exposure, noise = (
            f"{r[f'{name}_over_potrf']:.2f}" for name in ("typical", "worst", "exposure", "noise")
        )
        rate = nearest(found, r["d"])["one"]
        half, full = (f"{release(rate, r['d'], share):.2f}" for share in (0.5, 1.0))
        rows.append([f"{r['d']:,}", typical, half, worst, full, exposure, noise])
    return table(["d", "a release", "limit", "near full rank", "limit", "exposure()", "posterior noise"], rows)


def release(rate, d, share):
    """Limit of the account of a head over a factorisation: its columns lose what a kept basis of some rank spans."""
    return limit(rate, 4 * d * share * d * C) / limit(rate, 0, d**3 / 3)


def scale_table(found):
    steps = [
        "attack",
        "identify float64",
        "delete float64",
        "recover float64",
        "own data",
        "hardened deletion",
        "exposure",
    ]
    rows = []
    for r in found["scale"]["sizes"]:
        for step in steps:
            if step not in r["time_s"]:
                continue
            seconds = r["time_s"][step]
            least = scale_limit(nearest(found, r["d"])["all"], r["d"], r["classes"], step)
            labels = f"{r['float64']['labels']}, {r['float32']['labels']}" if step == "attack" else ""
            rows.append(
                [
                    f"{r['d']:,}" if step == "attack" else "",
                    step,
                    f"{seconds:.1f} s",
                    "" if least is None else f"{least:.1f} s ({least / seconds:.0%})",
                    f"{r['peak_gb'][step]:.2f} GB",
                    labels,
                ]
            )
    return table(["d", "step", "takes", "limit (share)", "memory", "labels at float64, float32"], rows)


def scale_limit(rate, d, c, step):
    """Limit of one step of benchmarks/scale.py; None where it is not made of products and factorisations.

    A deletion, and its being taken back, is a solve for one row and the residual of a head; a recovery a product with
    one triangle, after one factorisation for all. An answer to own data is a solve for a batch of rows, the residual,
    and the attacker's product; every eighth part of d in pending rows there is a new factor.
    """
    identify = limit(rate, 2 * d**3, d**3)
    recover = limit(rate, 20 * d * d * (c + 1), d**3 / 3)
    delete = limit(rate, 40 * 2 * d * d * (c + 1))
    n = 2 * -(-d // c)
    rows = int(1.2 * d) + c
    own = limit(rate, 2 * rows * d * d + n * 4 * d * d * c, 8 * rows / d * d**3 / 3)
    own += limit(rate, 2 * (4 * n * c * d * d) + 2 * d**3, 2 * (2 * n * c * d * d - 2 / 3 * d**3))
    known = {"identify float64": identify, "delete float64": delete, "recover float64": recover, "own data": own}
    known["attack"] = identify + delete + recover
    known["hardened deletion"] = limit(rate, 2 * d * d * c, d**3 / 3)
    return known.get(step)


def message_table(found):
    rows = [
        [
            f"{r['d']:,}",
            f"{r['bytes'] / 1e6:.2f} MB",
            f"{r['dense_bytes'] / 1e6:,.0f} MB",
            f"{r['peak_bytes'] / 1e6:.1f} MB",
        ]
        for r in found["message_size"]["one_record"]
    ]
    return table(["d", "one record's deletion", "dense", "memory to encode and decode"], rows)


def machine_line(found):
    of = found["machine"]
    memory = ", ".join(f"{name} {found[name]['gb']:.1f}" for name in BENCHMARKS if "gb" in found[name])
    return (
        f"Measured on {found['date']}: version {of['exhume']}, Python {of['python']}, NumPy {of['numpy']}, "
        f"{of['cores']} cores ({of['processor']}), {of['memory_gb']:.0f} GB of memory."
        + (f" Largest memory of the benchmarks, in GB: {memory}." if memory else "")
    )


def command_table(found):
    rows = []
    for one in (value for value in found.values() if isinstance(value, dict) and "command" in value):
        asked = " and ".join(one["forecast"]) if "forecast" in one else ""
        rows.append([f"`{one['command']}`", duration(one["seconds"]), f"{one['gb']:.1f} GB", asked, read_labels(one)])
    return table(["command", "takes", "memory of its largest process", "said before", "labels"], rows)


def duration(seconds):
    return f"{seconds:.0f} s" if seconds < 90 else f"{int(seconds) // 60} min {int(seconds) % 60} s"


def read_labels(one):
    """Return how many labels of single records each probe and server gave, if this is an audit of many features."""
    if "forecast" not in one:
        return ""
    records = [f for f in one["findings"] if f["kind"] == "record"]
    return ", ".join(f"{f['labels_correct']} of {f['trials']} ({f['precision']})" for f in records)


def exponents(found):
    identify, scale = found["identify"].get("exponent"), found["scale"].get("exponent")
    shown = [
        f"{name}: {value:.2f}" for name, value in (("identification", identify), ("attack at c = 100", scale)) if value
    ]
    return "Growth exponents: " + "; ".join(shown) + "." if shown else "Growth exponents were not measured."


TABLES = {
    "rates": rate_table,
    "ledger": ledger_table,
    "identify": identify_table,
    "cells": cell_table,
    "accountant": accountant_table,
    "messages": message_table,
    "scale": scale_table,
    "exponents": exponents,
    "machine": machine_line,
    "commands": command_table,
}


def renewed(page, found):
    """Return the page with every table between its marks made anew."""
    for name, make in TABLES.items():
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        made = make(found).replace("\\", r"\\")
        page, count = marks.subn(rf"\1\n{made}\n\n\2", page)
        if count != 1:
            raise SystemExit(f"performance: the page has {count} places for the table '{name}', not 1")
    return page


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, default=HERE.parent / "docs" / "performance.md")
    parser.add_argument("--json", type=Path, default=HERE.parent / "docs" / "performance.json")
    parser.add_argument("--reuse", action="store_true", help="make the tables of the JSON file, without measuring")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--again", nargs="*", default=[], metavar="PART", help="measure these parts anew")
    options = parser.parse_args()
    if options.reuse or options.again:
        found = measured_again(options.again, options.json)
    else:
        found = measured(options.quick, options.json)
    options.page.write_text(renewed(options.page.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()

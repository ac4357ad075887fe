"""One audit on every engine, with one seed: is every finding the same, to the bit?

The audit is that of `exhume audit` at its defaults. Its records (labels, answers, counts, costs, refusals, errors) and
its report are taken apart into single values and compared one by one, numbers by their bits. Finished trials are kept
in the folder, so a run that was stopped goes on. The exit code is 1 if anything differs.

    python benchmarks/engines.py [--dim 128] [--trials 100] [--seed 0] [--jobs 1] [--out engines] [--json]
"""

import argparse
import hashlib
import json
import time
from pathlib import Path

from exhume.audit.engines import ENGINES, IN_PROCESS
from exhume.audit.run import assess
from exhume.audit.settings import make_settings


def values(item, path=""):
    """Yield every value of a nested record with its path; a number in full precision, so that equal is equal bits."""
    if isinstance(item, dict):
        for name, inner in item.items():
            yield from values(inner, f"{path}.{name}")
    elif isinstance(item, list | tuple):
        yield f"{path}.length", str(len(item))
        for k, inner in enumerate(item):
            yield from values(inner, f"{path}[{k}]")
    else:
        yield path, item.hex() if isinstance(item, float) else repr(item)


def played(engine, asked, out):
    """Return every value of one engine's audit, with what kind of value it is, and the CPU and clock seconds."""
    settings = make_settings({**asked, "engine": engine, "out": str(out / engine)})
    clock, cpu = time.perf_counter(), time.process_time()
    outcome, report = assess(settings)
    parts = {name: [record.model_dump() for record in getattr(outcome, name)] for name in ("cells", "trials", "sieges")}
    parts["findings"] = [finding.model_dump() for finding in report.findings]
    # What names the command names its engine, too.
    parts["verdict"] = report.verdict.model_dump(exclude={"next_steps"})
    parts["remedy"] = None if report.remedy is None else report.remedy.model_dump(exclude={"command"})
    found = dict(values(parts))
    text = "\n".join(f"{path} {value}" for path, value in sorted(found.items()))
    told = {
        "engine": engine,
        "trials": len(outcome.trials),
        "reused": outcome.reused,
        "clock_s": time.perf_counter() - clock,
        "cpu_s": time.process_time() - cpu,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "labels_right": sum(bool(r.label_correct) for trial in outcome.trials for r in trial.recoveries),
        "labels": sum(r.label_correct is not None for trial in outcome.trials for r in trial.recoveries),
        "verdict": None if report.verdict.severity is None else str(report.verdict.severity),
    }
    return found, told


def compared(found, other):
    """Return how many values, how many of them floating-point numbers, and the paths at which two audits differ."""
    paths = sorted({*found, *other})
    differ = [path for path in paths if found.get(path) != other.get(path)]
    return {"values": len(paths), "numbers": sum("0x" in found.get(p, "") for p in paths), "differ": differ}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("engines"))
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    asked = {name: getattr(options, name) for name in ("dim", "trials", "seed", "jobs")}
    runs = {engine: played(engine, asked, options.out) for engine in ENGINES}
    ours, _ = runs[IN_PROCESS]
    against = {engine: compared(ours, found) for engine, (found, _) in runs.items() if engine != IN_PROCESS}
    if options.json:
        print(json.dumps({"settings": asked, "engines": [told for _, told in runs.values()], "compared": against}))
    else:
        show(runs, against)
    raise SystemExit(1 if any(told["differ"] for told in against.values()) else 0)


def show(runs, against):
    for _, told in runs.values():
        labels = f"{told['labels_right']} of {told['labels']} labels right"
        print(
            f"{told['engine']:10s}: {told['trials']} trials ({told['reused']} reused), {labels}, verdict "
            f"{told['verdict']}, {told['cpu_s']:.0f} s of one core; sha256 {told['sha256']}"
        )
    for engine, told in against.items():
        print(f"{engine}: {told['values']} values, {told['numbers']} of them floats: {len(told['differ'])} differ")
        for path in told["differ"][:20]:
            print(f"  {path}")


if __name__ == "__main__":
    main()

"""A fixed sample of mutants: small wrong changes to the code, each of which some test must notice.

`python tools/mutants.py` makes every change of `mutants.toml` in a copy of the code, runs the tests that it names, and
prints which mutants they killed and the share per room. Arguments are parts of file names: only those mutants run.
A mutant whose text or tests are no longer there is broken. Nothing runs while one is: put it right or take it out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "exhume"
LIST = Path(__file__).with_suffix(".toml")
WANTED = 0.95
PATIENCE = 900
"""Seconds after which a test run that a mutant made endless counts as killed."""


@dataclass(frozen=True)
class Mutant:
    """One wrong change."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def room(self) -> str:
        return self.file.split("/")[0]

    def wrong(self) -> str | None:
        """Say why it cannot be made or noticed; None if it can."""
        missing = [test for test in self.tests if not (ROOT / test.split("::")[0]).exists()]
        if missing or not self.tests:
            return f"tests are not there: {', '.join(missing) or 'none named'}"
        file = PACKAGE / self.file
        count = file.read_text(encoding="utf-8").count(self.old) if file.is_file() else 0
        if count != 1:
            return f"the text is there {count} times"
        return "it changes nothing" if self.old == self.new else None

    def made_in(self, package: Path) -> None:
        """Change a copy of the code."""
        file = package / self.file
        file.write_text(file.read_text(encoding="utf-8").replace(self.old, self.new), encoding="utf-8")

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.old.split())}  ->  {' '.join(self.new.split())}"


def read(wanted: list[str]) -> list[Mutant]:
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    found = [Mutant(e["file"], e["old"], e["new"], tuple(e["tests"])) for e in entries]
    return [mutant for mutant in found if not wanted or any(part in mutant.file for part in wanted)]


def passes(tests: tuple[str, ...], package: Path) -> bool:
    """Say whether tests pass on a copy of the code."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **threads, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.returncode == 0


def judge(mutant: Mutant) -> str:
    with tempfile.TemporaryDirectory(prefix="exhume-mutant-") as folder:
        package = Path(folder) / "exhume"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        mutant.made_in(package)
        return "survived" if passes(mutant.tests, package) else "killed"


def main() -> int:
    mutants = read(sys.argv[1:])
    broken = [(mutant, why) for mutant in mutants if (why := mutant.wrong()) is not None]
    for mutant, why in broken:
        print(f"broken, {why}: {mutant}")
    if not mutants:
        print(f"no mutant of {LIST.name} is in {', '.join(sys.argv[1:])}")
        return 2
    if broken:
        print(f"{len(broken)} of {len(mutants)} mutants are broken: put them right in {LIST.name}, or take them out")
        return 2
    files = tuple(sorted({test.split("::")[0] for mutant in mutants for test in mutant.tests}))
    if not passes(files, PACKAGE):
        print("the tests fail without any mutant, so nothing can be said of mutants")
        return 2
    counts: Counter[tuple[str, str]] = Counter()
    for mutant in mutants:
        began = time.monotonic()
        verdict = judge(mutant)
        counts[mutant.room, verdict] += 1
        print(f"{verdict:8} {time.monotonic() - began:5.0f} s  {mutant}", flush=True)
    enough = True
    for room in sorted({mutant.room for mutant in mutants}):
        killed, survived = counts[room, "killed"], counts[room, "survived"]
        share = killed / (killed + survived)
        enough = enough and share >= WANTED
        print(f"{room}: {killed} killed, {survived} survived: {share:.0%} (wanted {WANTED:.0%})")
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())

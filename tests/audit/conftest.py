import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from exhume.audit.run import Audit, audit
from exhume.audit.settings import make_settings

SMALL = {"dim": 16, "clients": 3, "trials": 6, "jobs": 1, "precision": "float64,float32", "remedy": False}
"""Small enough for a second, large enough that the attacker has full feature rank."""

TINY = {key: value for key, value in SMALL.items() if key != "precision"}
"""The same for settings that decide the heads themselves."""


@dataclass(frozen=True)
class Small:
    done: Audit
    out: Path

    @property
    def json(self):
        return json.loads((self.out / "report.json").read_text())


def numbers(report):
    """Return a report without what differs between two runs: when and where it was made, and what is to be done."""
    return report.model_dump(exclude={"date": True, "remedy": True, "verdict": {"next_steps"}})


@pytest.fixture(scope="session")
def small(tmp_path_factory) -> Small:
    out = tmp_path_factory.mktemp("audit") / "report"
    settings = make_settings({**SMALL, "remedy": True, "out": out})
    return Small(audit(settings, command="exhume audit --dim 16"), out)


@pytest.fixture(scope="session")
def hardened(tmp_path_factory) -> Small:
    out = tmp_path_factory.mktemp("hardened") / "report"
    return Small(audit(make_settings({**TINY, "defence": "hardened", "out": out}), command="exhume audit"), out)

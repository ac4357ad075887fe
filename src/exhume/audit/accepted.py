"""Findings that somebody has accepted: by name, with a reason, until a day.

    [[risk]]
    finding = "record/own-data/*/rank-one"
    level = "label"
    reason = "Labels are public here: the class is the ward, which every client knows."
    expires = 2027-06-30

A ``*`` stands for anything. ``level`` is the worst that is accepted (any, if it is left out). A risk that has expired,
or that covers nothing, is said and does not count.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from exhume.audit.items import JudgedAttack
from exhume.audit.levels import Level, at_least, worst
from exhume.errors import InputError
from exhume.options import first_error

__all__ = ["Acceptance", "Risk", "accept", "read_risks"]


class Risk(BaseModel):
    """One accepted risk."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    finding: str = Field(min_length=1)
    level: Level = "replay"
    reason: str
    expires: date

    @field_validator("reason")
    @classmethod
    def _said(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("a reason in words")
        return value.strip()

    def covers(self, item: JudgedAttack) -> bool:
        """Whether an item is meant, and no worse than what is accepted."""
        return fnmatchcase(item.name, self.finding) and at_least(self.level, item.level)


@dataclass(frozen=True)
class Acceptance:
    """What was accepted of one audit."""

    covered: dict[str, Risk]
    """The risk that covers an item, by the item's name; items of level none need no risk."""
    expired: tuple[Risk, ...]
    idle: tuple[Risk, ...]
    """Risks that cover nothing."""

    def severity(self, items: Sequence[JudgedAttack]) -> Level:
        """Return the worst level of what is not accepted."""
        return worst(item.level for item in items if item.name not in self.covered)

    def lines(self, items: Sequence[JudgedAttack]) -> list[str]:
        """Return what was accepted and what is left, in words."""
        if not (self.covered or self.expired or self.idle):
            return []
        left = self.severity(items).upper()
        lines = [f"Accepted: {len(self.covered)} findings. The worst that is left is {left}."]
        for risk in dict.fromkeys(self.covered.values()):
            count = sum(risk == other for other in self.covered.values())
            lines.append(f"  {risk.finding} ({count}), until {risk.expires}: {risk.reason}")
        lines += [f"  Expired on {risk.expires}, does not count: {risk.finding}" for risk in self.expired]
        return lines + [f"  Covers nothing: {risk.finding}" for risk in self.idle]


def read_risks(path: Path) -> tuple[Risk, ...]:
    """Read a file of accepted risks; anything wrong is an `InputError` that names the entry."""
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("accept", "a TOML file that can be read", f"'{path}' ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("accept", "a valid TOML file", f"'{path}': {error}") from None
    entries = content.get("risk")
    if set(content) != {"risk"} or not isinstance(entries, list):
        raise InputError("accept", "a file of [[risk]] tables and nothing else", ", ".join(content) or "an empty file")
    found = []
    for number, entry in enumerate(entries, 1):
        try:
            found.append(Risk.model_validate(entry))
        except ValidationError as error:
            raise first_error(error, f"accept: risk {number}", hides=None) from None
    return tuple(found)


def accept(risks: Sequence[Risk], items: Sequence[JudgedAttack], today: date) -> Acceptance:
    """Cover items by the first risk that is in force; on its last day it still is."""
    current = [risk for risk in risks if risk.expires >= today]
    covered: dict[str, Risk] = {}
    for item in items:
        risk = next((risk for risk in current if item.level != "none" and risk.covers(item)), None)
        if risk is not None:
            covered[item.name] = risk
    idle = tuple(risk for risk in current if risk not in covered.values())
    return Acceptance(covered, tuple(risk for risk in risks if risk.expires < today), idle)

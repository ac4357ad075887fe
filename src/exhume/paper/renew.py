"""Renewing some tables of an existing page: their sections and cells are replaced, everything else stays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from exhume.errors import DataError
from exhume.paper.comparisons import Comparison
from exhume.paper.render import AGREEMENT, agreement, section
from exhume.paper.table import Table

__all__ = ["agreeing_page", "rendered_page", "renewed_comparisons", "renewed_page"]

_SECTION = re.compile(r"^## .*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_RENEWED = re.compile(r"^Renewed by `[^`\n]+`\.$", re.MULTILINE)
_NAME = re.compile(r"^## [^\n]*\n\n`([a-z0-9_]+)`\. ")


def renewed_page(page: str, fresh: str, names: Sequence[str], command: str) -> str:
    """Return a page with the sections of some tables taken from another page; new ones go to the end.

    Raises
    ------
    DataError
        If the fresh page lacks one of them.
    """
    sections = {_name(section): section for section in _SECTION.findall(fresh)}
    for name in names:
        if name not in sections:
            raise DataError(f"the new page has no section {name}")
        section = f"{sections[name].rstrip()}\n\nRenewed by `{command}`.\n\n"
        old = [part for part in _SECTION.findall(page) if _name(part) == name]
        page = page.replace(old[0], section) if old else f"{page.rstrip()}\n\n{section}"
    return page.rstrip() + "\n"


def rendered_page(page: str, tables: Sequence[Table], cells: Mapping[str, list[Comparison]], place: str) -> str:
    """Return a page whose sections are written again from the cells; its head and who renewed what stay.

    Raises
    ------
    DataError
        If the page lacks the section of a table that has cells.
    """
    everything = [cell for found in cells.values() for cell in found]
    sections = {_name(part): part for part in _SECTION.findall(page)}
    for table in tables:
        if table.name not in sections:
            raise DataError(f"the page has no section {table.name}")
        old = sections[table.name]
        parts = [section(table, cells[table.name], everything, place).rstrip(), *_RENEWED.findall(old)]
        page = page.replace(old, "\n\n".join(parts) + "\n\n")
    return agreeing_page(page, everything).rstrip() + "\n"


def agreeing_page(page: str, cells: Sequence[Comparison]) -> str:
    """Return a page whose section on agreement tells of these cells; a page without one stays as it is."""
    old = [part for part in _SECTION.findall(page) if part.startswith(f"## {AGREEMENT}\n")]
    return page.replace(old[0], f"{agreement(cells).rstrip()}\n\n") if old else page


Cells = dict[str, list[Comparison]]


def renewed_comparisons(old: Sequence[Comparison], fresh: Cells) -> Cells:
    """Return the cells of both, by table; the fresh ones where a table is in both."""
    kept: Cells = {}
    for cell in old:
        kept.setdefault(cell.table, []).append(cell)
    return kept | fresh


def _name(section: str) -> str | None:
    found = _NAME.match(section)
    return None if found is None else found[1]

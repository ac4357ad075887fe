"""The ServerApp: rounds on a book, from where the last run stopped."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from exhume.errors import InputError
from exhume.flower.book import Book
from exhume.flower.rounds import (
    ADD,
    UNLEARN,
    Clock,
    Kind,
    Postmaster,
    RoundFailedError,
    RoundReport,
    broadcast,
    digest,
    play,
)
from exhume.protocol.message import MOST

__all__ = ["Setup", "run", "server_app"]

_log = logging.getLogger("exhume.flower")


@dataclass(frozen=True)
class Setup:
    """What a ServerApp is to do."""

    book: Book
    rounds: int
    """How many rounds the book has in the end, those of earlier runs included."""
    nodes: int = 2
    """How many nodes to wait for before a round."""
    unlearn: frozenset[int] = field(default_factory=frozenset)
    """The rounds in which nodes are asked for deletions only."""
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        for name, value in (("rounds", self.rounds), ("nodes", self.nodes)):
            if value < 1:
                raise InputError(name, "at least 1", value)

    def kind(self, number: int) -> Kind:
        """Return what is asked for in a round."""
        return UNLEARN if number in self.unlearn else ADD


def run(grid: Grid, setup: Setup) -> list[RoundReport]:
    """Play the rounds that are left. A book that is ahead of its last broadcast sends the head out first."""
    book, post, reports = setup.book, Postmaster(grid, setup.clock), []
    if book.rounds:
        _log.info("going on after round %d, ledger %s", book.rounds, digest(book.server.ledger))
        there = post.gather(setup.nodes)
        if not any(book.knows(book.name(node)) for node in there):
            raise RoundFailedError(
                f"none of {len(there)} nodes took part in the {book.rounds} rounds of this book, so nobody knows what "
                "is its own: node ids last from run to run only where nodes log in"
            )
        broadcast(post, book, there)
    while book.rounds < setup.rounds:
        nodes, start = post.gather(setup.nodes), time.monotonic()
        reports.append(play(post, book, nodes, kind=setup.kind(book.rounds + 1)))
        heard = broadcast(post, book, nodes, reports[-1].receipts)
        _log.info("round %d: %s; %.2f s", book.rounds, _measured(heard), time.monotonic() - start)
    _log.info("%d rounds, ledger %s", book.rounds, digest(book.server.ledger))
    return reports


def server_app(setup: Callable[[Context], Setup]) -> ServerApp:
    """Return a ServerApp that plays what ``setup`` makes of its context."""
    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        _speak()
        made = setup(context)
        try:
            run(grid, made)
        finally:
            made.book.close()

    app.main()(main)
    return app


def _measured(heard: dict[int, dict[str, float]]) -> str:
    told = [values for values in heard.values() if _sensible(values)]
    if not told:
        return f"{len(heard)} nodes heard the head"
    rows = sum(values["rows"] for values in told)
    mean = sum(values["accuracy"] * values["rows"] for values in told) / rows
    return f"{len(heard)} nodes heard the head, accuracy {mean:.4f}"


def _sensible(values: dict[str, float]) -> bool:
    """Return whether what a node says of a head can be a share of so many rows; others do not spoil the mean."""
    return 0 <= values.get("accuracy", -1.0) <= 1 and 1 <= values.get("rows", 0.0) <= MOST


def _speak() -> None:
    """Let the log go to standard output, which Flower carries to the SuperLink."""
    if not _log.handlers:
        shown: logging.Handler = logging.StreamHandler(sys.stdout)
        shown.setFormatter(logging.Formatter("exhume: %(message)s"))
        _log.addHandler(shown)
    _log.setLevel(logging.INFO)


def setting(context: Context, name: str, default: Any) -> Any:
    """Return a value of the run's configuration, of the default's type."""
    value = context.run_config.get(name, default)
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not type(default):
        raise InputError(name, f"of type {type(default).__name__}", repr(value))
    return value

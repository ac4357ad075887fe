"""Non-interference: what a client can see must depend on public values and on that client's own messages alone.

Every rule says what its visible decisions (accepted or refused, the reason, a withheld head) may read:

``"message"``
    the message at hand, and public settings;
``"client"``
    also what the same client sent before, and public counts;
``"everyone"``
    also what others sent. Such a rule answers questions about others' data to whoever asks often enough.

A rule that must look at others' secrets can set a message aside instead of refusing it (`AdmissionRule.taken`): the
receipt is the same and the ledger does not move. That takes the answer out of the receipt, not out of later heads.
"""

from __future__ import annotations

from exhume.defence.release import rules_of
from exhume.protocol.rules import Heads
from exhume.protocol.server import Server

__all__ = ["READS", "interfering", "reads_of"]

READS = ("message", "client", "everyone")
"""What a rule's visible decisions may read, from least to most."""


def reads_of(rule: object) -> str:
    """Return what a rule says that it reads; one that does not say is taken to read everything."""
    reports = getattr(rule, "action", None) == "report"  # an accountant that withholds nothing
    found = "message" if isinstance(rule, Heads) or reports else getattr(rule, "reads", "everyone")
    return found if found in READS else "everyone"


def interfering(server: Server) -> tuple[str, ...]:
    """Return the names of a server's rules whose decisions may tell one client about others."""
    accountant = () if server.accountant is None else (server.accountant,)
    rules = (*server.admission, *rules_of(server.release), *accountant)
    return tuple(getattr(r, "name", "") or type(r).__name__ for r in rules if reads_of(r) == "everyone")

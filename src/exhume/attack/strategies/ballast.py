"""Lay a ballast, and take it back: while it stands the state is well conditioned."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from exhume.attack.probes.base import Probe, ballast_of
from exhume.attack.session import Attack
from exhume.errors import AttackError, InputError, NoteWarning, RefusedError
from exhume.numerics import relative
from exhume.protocol.head import Head, unit_roundoff
from exhume.protocol.summary import Summary, Update

__all__ = ["ballasted"]

MOST_HARM = 1e-3
"""A head that comes back off by more than this share is told of, unless the released format shows no less."""


@contextmanager
def ballasted(attack: Attack, probe: Probe) -> Iterator[Attack]:
    """Let a probe's ballast stand while the block runs; it is taken back however the block ends.

    States that were identified in the block are of the ledger with the ballast in it: use them inside.

    Where the answer to the ballast itself is lost, the public head says whether it stands, as in `Attack.run`: if the
    head is another than before, the ballast is taken back, else nothing is sent. To delete what never arrived would do
    more harm than to leave it. That can be wrong where somebody else's message came at that very moment or the server
    withholds its heads, and where the head cannot be read either, nothing is known and nothing is sent. The error that
    lost the answer is raised in every case; so is one that loses the answer to the taking back, which is sent once.

    The server adds the weight and takes it off in float64, which may leave ``weight * 2**-53`` on the diagonal of its
    gram. That is nothing for a weight of `probes.weight_for`, and ruins the head for one that is many orders above
    everybody's rows.

    Raises
    ------
    InputError
        If the probe has no ballast.
    AttackError
        If the server refused to take the ballast back: it stands.

    Warns
    -----
    NoteWarning
        If the head did not come back, though nobody else sent anything (serials tell).
    """
    wanted = ballast_of(probe)
    if wanted is None:
        raise InputError("probe", "one with a ballast, as probes.ballast makes", getattr(probe, "name", probe))
    before, sent = attack.observe(), attack.cost.messages
    stands = True
    try:
        try:
            attack.submit(Update.adding(wanted))
        except BaseException as error:
            stands = False
            stands = not isinstance(error, RefusedError | InputError) and attack.moved()
            raise
        yield attack
    finally:
        if stands:
            _take_back(attack, wanted, before, sent)


def _take_back(attack: Attack, ballast: Summary, before: Head, sent: int) -> None:
    """Delete the ballast; says if the head is then another than the one before, of when so many messages were sent."""
    try:
        after = attack.submit(Update.deleting(ballast))
    except (RefusedError, InputError) as error:
        raise AttackError(f"the ballast could not be taken back, and stands: {error}") from error
    if before.serial is None or after.serial != before.serial + attack.cost.messages - sent:
        return  # somebody else sent something, or heads were withheld: the head need not be the same
    off = relative(after.weights - before.weights, before.weights)
    if off > max(MOST_HARM, 8 * unit_roundoff(after.precision)):
        reason = "its weight is too much for the server's arithmetic, or the server adds noise"
        warnings.warn(f"the head is off by {off:.2g} of itself after the ballast: {reason}", NoteWarning, stacklevel=5)

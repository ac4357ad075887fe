"""How much of the state a client could have identified, as numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass

from exhume.errors import InputError
from exhume.protocol.rules import Exposure

__all__ = ["Identification", "in_words"]


@dataclass(frozen=True)
class Identification(Exposure):
    """How much of the state a client, alone or with colluders, could have identified."""

    rank: int
    """The highest rank of any stack that it could have built."""
    needed: int
    """What the rank counts against: the number of coordinates that ever had weight in the ledger.

    Where the rank fills the coordinates in which the client's own rows have weight, it is the number of these: nothing
    is missing then to read every record that is zero in the others.
    """
    current: int
    """The rank of its stack of the present state."""
    responses: int
    """The responses in that stack."""
    condition: float
    """Condition number of that stack within its span."""
    state_error: float
    """Bound on the relative error of the present state, were it identified now by solving the stack exactly.

    Infinite below full rank, and where rounding and noise are as large as the weakest direction of the stack.
    """

    def deletion_error(self, share: float) -> float:
        """Return the bound on the relative error of a deleted gram of size ``share`` of the state, by differencing.

        Two states with this error differ by the block: ``(|E_pre| + |E_post|) / |S_del|``.
        """
        if not share > 0.0:
            raise InputError("share", "above 0", share)
        return 2.0 * self.state_error / share


def in_words(client: str, colluders: int, rank: int, needed: int, live: int, error: float | None) -> str:
    """Say it in words; the error is None where the present stack is not complete."""
    who = f"'{client}'" if colluders == 1 else f"'{client}' with up to {colluders - 1} more"
    if rank == 0:
        return f"{who} has seen no response to changes that it knows in full"
    if rank < needed:
        missing = f"{needed - rank} are missing, so it is not identified"
        return f"{who} has seen {rank} of {needed} dimensions of one state; {missing}"
    known = f"{who} has seen all {needed} dimensions of one state"
    if needed < live:
        known += f" in which its own rows have weight (of {live} with any)"
    if error is None:
        return f"{known}, which is therefore identifiable; it has not for the present one"
    if error < 1.0:
        return f"{known} and can identify the present one to a relative error of at most {error:.2g}"
    return f"{known}, but rounding or noise in the heads leaves no bound below 1 on its error ({error:.2g})"

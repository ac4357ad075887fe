"""A step that fails is forgotten by every rule: what they would save is bit for bit what it was before."""

import numpy as np
import pytest
from safetensors.numpy import load

from exhume import Ledger, Server, Summary, Update
from exhume.defence import Config, Entry, build
from exhume.defence.accountants import IdentificationAccountant
from exhume.defence.accountants._basis import Basis
from exhume.defence.release import Chain
from exhume.errors import InputError
from exhume.protocol import Heads, itemise

D, C = 6, 3


class Fuse(Heads):
    """The last rule of a chain, which breaks down where it is told to."""

    place = ""

    def __init__(self):
        super().__init__("float32")

    def release(self, head, occasion):
        if Fuse.place == "release":
            raise RuntimeError("release")
        return super().release(head, occasion)

    def record(self, released, occasion):
        if Fuse.place == "record":
            raise RuntimeError("record")


ADMISSION = (
    Entry.of("positive-semidefinite"),
    Entry.of("duplicates", seed=1),
    Entry.of("replay", seed=2),
    Entry.of("ownership", seed=3),
    Entry.of("algebraic-ownership", least_norm=1e-3),
    Entry.of("detector", centre=[0.0] * 6, spread=[1.0] * 6, threshold=0.5, rate=0.1, refuse_flagged=False, seed=4),
)
RELEASE = {
    "mask": (
        Entry.of("deletion-mask", sigma=0.2, key="00" * 16),
        Entry.of("posterior-noise", sigma=0.1, key="11" * 16),
    ),
    "continual": (Entry.of("continual-noise", sigma=0.2, horizon=5, key="00" * 16),),
    "budget": (
        Entry.of("every-k-changes", changes=1),
        Entry.of("response-budget", responses=90),
        Entry.of("posterior-noise", sigma=0.1, key="11" * 16),
        Entry.of("privacy-budget", sigma=0.1, mu=50.0),
    ),
}


def world(release):
    rng = np.random.default_rng(0)
    ledger = Ledger(Summary.of(rng.normal(size=(80, D)), rng.integers(0, C, 80), C), 1e-2)
    accountant = Entry.of("identification", margin=2, action="report", conservative=True, colluders=2)
    made = build(Config(admission=ADMISSION, release=(*RELEASE[release],), accountant=accountant), ledger)
    rules = Chain([*made.release.rules, Fuse()])
    return Server(ledger, admission=made.admission, release=rules, accountant=made.accountant)


def messages():
    """Additions and deletions of three clients, plain and with their rows, deletions of what is there."""
    rng = np.random.default_rng(1)
    made = []
    for i in range(4):
        for client in ("a", "b", "c"):
            rows = rng.normal(size=(2, D)), rng.integers(0, C, 2)
            add = itemise(C, add=rows) if i % 2 else Update.adding(Summary.of(*rows, C))
            gone = itemise(C, delete=rows) if i % 2 else Update.deleting(Summary.of(*rows, C))
            made += [(client, add)] + ([(client, gone)] if i > 1 else [])
    return made


def saved(part):
    """What a rule would save, in one order (safetensors writes its header in any)."""
    return {name: array.tobytes() for name, array in load(part.save()).items()}


def everything(server):
    total = server.ledger.summary
    parts = (*server.admission, *server.release.rules, server.accountant)
    return (
        [saved(part) for part in parts if hasattr(part, "save")],
        (total.gram.tobytes(), total.moment.tobytes(), server.counts, server.released),
        [server.exposure(client) for client in ("a", "b", "c")],
        server.admission[-1].flagged.copy(),
    )


@pytest.mark.parametrize("release", RELEASE)
@pytest.mark.parametrize("place", ["release", "record"])
def test_what_rules_would_save_is_as_before_a_step_that_failed(release, place, monkeypatch):
    troubled, untroubled = world(release), world(release)
    accepted = 0
    for client, update in messages():
        before = everything(troubled)
        monkeypatch.setattr(Fuse, "place", place)
        with pytest.raises(RuntimeError, match=place):
            troubled.submit(update, client)
        monkeypatch.setattr(Fuse, "place", "")
        assert everything(troubled) == before
        receipts = [server.submit(update, client) for server in (troubled, untroubled)]
        assert receipts[0] == receipts[1]
        accepted += receipts[0].accepted
    assert accepted == len(messages())
    assert everything(troubled) == everything(untroubled)


def test_a_marked_stack_goes_on_as_if_what_was_taken_out_had_never_been_in_it():
    """A giant that was taken out must not set the scale by which later columns count."""
    rng = np.random.default_rng(0)
    basis = Basis(D)
    basis.add(basis.extension(rng.normal(size=(D, 2))))
    undo = basis.mark()
    basis.add(basis.extension(1e14 * rng.normal(size=(D, 1))))
    undo()
    assert basis.rank == 2 and basis.singular_values()[0] < 100
    assert basis.extension(rng.normal(size=(D, 1))).gain == 1


def test_a_margin_is_held_against_d_when_the_server_is_built():
    for margin, fits in ((D - 1, True), (D, False), (D + 1, False)):
        accountant = IdentificationAccountant(margin)
        if fits:
            Server(Ledger.zeros(D, C, 1.0), accountant=accountant)
            continue
        with pytest.raises(InputError, match=f"margin must be below d = {D}; got {margin}"):
            Server(Ledger.zeros(D, C, 1.0), accountant=accountant)

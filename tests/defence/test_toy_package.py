"""Another package brings a rule of each kind: found, loaded from a file, saved, evaluated; no file of ours changes."""

import sys

import numpy as np
import pytest

from exhume import Ledger, Summary, Update
from exhume.defence import Defences, accountants, admission, build_server, load, load_server, release, save_server
from exhume.defence.config import dump
from exhume.errors import InputError

SOURCE = '''
from dataclasses import replace

import numpy as np

from exhume.defence.memory import Memory, Saveable
from exhume.defence.release import DeletionAccount, Rule
from exhume.protocol import Accountant, AdmissionRule, Exposure, Ledger, Summary


class FewMessages(Saveable, AdmissionRule):
    """Refuses a client's message beyond a number."""

    name = "few-messages"
    about = "at most so many messages of one client"

    def __init__(self, most: int, token: str = "") -> None:
        self.most, self._token, self._seen = most, token, {}

    def configuration(self):
        return {"most": self.most}

    def refuse(self, update, client):
        return f"{self.name}: enough" if self._seen.get(client, 0) >= self.most else None

    def record(self, update, client):
        self._seen[client] = self._seen.get(client, 0) + 1

    def remembered(self):
        return Memory({"seen": self._seen})

    def restore(self, memory):
        self._seen = dict(memory.values["seen"])


class Shifted(Rule):
    """A mask that adds a constant to the moment, once somebody has deleted something."""

    name = "shifted-totals"
    about = "heads of totals with a shifted moment"
    stage = "mask"

    def __init__(self, by: float = 1.0) -> None:
        self.by, self._deletions = by, []

    def configuration(self):
        return {"by": self.by}

    @property
    def deletions(self):
        return tuple(self._deletions)

    def masked(self, occasion):
        return replace(occasion, ledger=self._ledger(occasion.ledger))

    def masked_totals(self, ledger):
        found = self._ledger(ledger)
        return found.summary.gram + ledger.gamma * np.eye(ledger.d), found.summary.moment

    def deletion_noise(self, d):
        return self.by, 0.0

    def release(self, head, occasion):
        return replace(head, weights=self.masked(occasion).ledger.head())

    def record(self, released, occasion):
        for client, update in zip(occasion.clients, occasion.updates, strict=True):
            if not update.delete.is_zero:
                self._deletions.append(DeletionAccount(occasion.counts.submissions, client, 1.5))

    def remembered(self):
        return Memory({"deletions": [[d.number, d.client, d.mu] for d in self._deletions]})

    def restore(self, memory):
        self._deletions = [DeletionAccount(*d) for d in memory.values["deletions"]]

    def _ledger(self, ledger):
        return Ledger(Summary(ledger.summary.gram, ledger.summary.moment + self.by), ledger.gamma)


class Counting(Saveable, Accountant):
    """Counts heads, and takes a hundred of them for everything."""

    name = "counting"
    about = "how many heads went out"

    def __init__(self) -> None:
        self.heads = 0

    def review(self, released, exact, occasion):
        return released

    def observe(self, released, exact, occasion):
        self.heads += released is not None

    def exposure(self, client):
        return Exposure(self.heads / 100, f"{self.heads} heads")

    def remembered(self):
        return Memory({"heads": self.heads})

    def restore(self, memory):
        self.heads = memory.values["heads"]
'''
POINTS = """
[exhume.admission]
few = toy_defences:FewMessages

[exhume.release]
shifted = toy_defences:Shifted

[exhume.accountants]
counting = toy_defences:Counting
"""
FILE = """
version = 1

[[admission]]
rule = "few-messages"
most = 2

[[release]]
rule = "every-k-changes"
changes = 1

[[release]]
rule = "shifted-totals"
by = 3.0

[[release]]
rule = "posterior-noise"
sigma = 1e-9

[accountant]
rule = "counting"
"""
D, C = 4, 2
REGISTRIES = (admission.REGISTRY, release.REGISTRY, accountants.REGISTRY)


@pytest.fixture
def toys(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    info = folder / "toy_defences-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "toy_defences.py").write_text(SOURCE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-defences\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(folder))
    for registry in REGISTRIES:
        registry.renew()
    yield tmp_path
    sys.modules.pop("toy_defences", None)
    monkeypatch.undo()
    for registry in REGISTRIES:
        registry.renew()


def batch(seed=1):
    rng = np.random.default_rng(seed)
    return Summary.of(rng.normal(size=(6, D)), rng.integers(0, C, 6), C)


def test_rules_of_another_package_are_found_loaded_and_kept(toys):
    for registry, name in zip(REGISTRIES, ("few-messages", "shifted-totals", "counting"), strict=True):
        assert name in registry and registry[name].about
    path = toys / "server.toml"
    path.write_text(FILE)
    ledger = Ledger(batch(), 0.5)
    server = build_server(ledger, path)
    assert server.submit(Update.adding(batch(2)), "alice").accepted
    receipt = server.submit(Update.deleting(batch(2)), "alice")
    # The chain shows the rules behind the mask the masked ledger, and the evaluator finds mask and accounts.
    mask = release.mask_of(server.release)
    A, G = mask.masked_totals(server.ledger)
    np.testing.assert_allclose(receipt.head.weights, np.linalg.solve(A, G), atol=1e-6)
    assert not np.allclose(receipt.head.weights, server.ledger.head(), atol=1e-3)
    assert mask.deletion_noise(D) == (3.0, 0.0)
    (account,) = release.accounts_of(server.release)
    assert [(d.number, d.client, d.total) for d in account.deletions] == [(2, "alice", 1.5)]
    assert server.exposure("alice").value == 0.02
    save_server(server, toys / "state")
    again = load_server(path, toys / "state")
    refused = again.submit(Update.adding(batch(3)), "alice")
    assert (refused.rule, refused.reason) == ("few-messages", "few-messages: enough")
    assert again.exposure("alice").value == 0.02
    assert release.accounts_of(again.release)[0].deletions == account.deletions


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (('"few-messages"', '"few-mesages"'), "did you mean 'few-messages'"),
        (("most = 2", "mots = 2"), r"option of admission\[0\] \(few-messages\).*did you mean 'most'"),
        (("most = 2", 'most = "two"'), r"admission\[0\] \(few-messages\).most must be a valid integer"),
        (("most = 2", ""), r"admission\[0\] \(few-messages\).most must be given"),
    ],
)
def test_their_options_are_checked_when_the_file_is_loaded(toys, change, match):
    (toys / "server.toml").write_text(FILE.replace(*change, 1))
    with pytest.raises(InputError, match=match):
        load(toys / "server.toml")


def test_their_secrets_are_hidden_by_their_names(toys):
    (toys / "server.toml").write_text(FILE.replace("most = 2", 'most = 2\ntoken = "open sesame"'))
    config = load(toys / "server.toml")
    assert "sesame" not in repr(config) and config.has_secrets
    dump(config, toys / "copy.toml")
    assert load(toys / "copy.toml") == config


def test_a_mask_that_answers_less_than_a_mask_must_is_refused(toys):
    class Half(release.REGISTRY["shifted-totals"]):
        deletion_noise = None

    class Whole(release.REGISTRY["shifted-totals"]):
        pass

    class Spy(release.Rule):
        stage = "noise"

        def release(self, head, occasion):
            self.seen = occasion.ledger.summary
            return head

    spy = Spy()
    Defences((), release.Chain([Whole(2.0), spy]), None).server(Ledger(batch(), 0.5)).head()
    np.testing.assert_allclose(spy.seen.moment, batch().moment + 2.0)
    with pytest.raises(InputError, match="masked_totals"):
        release.Chain([Half()])
    with pytest.raises(InputError, match="at most one mask"):
        release.Chain([Whole(), release.DeletionMask(0.2)])
    Whole.stage = "elsewhere"
    with pytest.raises(InputError, match="in the order"):
        release.Chain([Whole()])

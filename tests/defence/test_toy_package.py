"""Another package brings a rule of each kind: found, loaded from a file, saved, evaluated; no file of ours changes."""

import numpy as np
import pytest

from exhume import Ledger, Summary, Update
from exhume.defence import Defences, build_server, load, load_server, release, save_server
from exhume.defence.config import dump
from exhume.errors import InputError
from tests.defence import test_registries as checks

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
KINDS = {"admission": "few-messages", "release": "shifted-totals", "accountant": "counting"}


def batch(seed=1):
    rng = np.random.default_rng(seed)
    return Summary.of(rng.normal(size=(6, D)), rng.integers(0, C, 6), C)


def test_rules_of_another_package_are_found_loaded_and_kept(toys):
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


@pytest.mark.parametrize(("kind", "name"), KINDS.items())
def test_they_pass_the_checks_of_every_rule(toys, kind, name):
    checks.test_every_rule_says_what_it_is(kind, name)
    checks.test_no_rule_shows_its_secrets(kind, name)
    for client in checks.NAMES:
        checks.test_what_every_rule_remembers_comes_back(kind, name, client)
    for client in (5, None):
        checks.test_a_name_that_is_no_text_is_refused_at_the_latest_when_it_is_saved(kind, name, client)

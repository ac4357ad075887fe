import stat
import sys
import tomllib
import traceback
import warnings

import numpy as np
import pytest

from exhume import Ledger, Server, Summary
from exhume.defence import (
    Chain,
    Config,
    Entry,
    IdentificationAccountant,
    build,
    build_server,
    dump,
    hardened_config,
    load,
)
from exhume.errors import InputError, OldNameWarning

FILE = """
version = 1

[[release]]
rule = "every-k-changes"
changes = 2

[[release]]
rule = "columns"
keep = [0, 1]

[[release]]
rule = "posterior-noise"
sigma = 0.25
key = "00112233445566778899aabbccddeeff"

[[release]]
rule = "privacy-budget"
sigma = 0.25
mu = 2
scope = "run"

[[release]]
rule = "heads"
precision = "float32"

[accountant]
rule = "identification"
margin = 2
colluders = 2
"""


def write(tmp_path, text):
    path = tmp_path / "defence.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_makes_the_rules_that_it_names(tmp_path):
    made = build(load(write(tmp_path, FILE)), Ledger.zeros(8, 3, 0.5))
    assert repr(made.release) == (
        "Chain([EveryKChanges(changes=2), Columns(keep=[0, 1]), PosteriorNoise(sigma=0.25), "
        "PrivacyBudget(sigma=0.25, mu=2.0, scope='run', colluders=1, serve_first=True), Heads('float32')])"
    )
    assert isinstance(made.accountant, IdentificationAccountant) and made.accountant.colluders == 2
    server = build_server(Ledger.zeros(8, 3, 0.5), write(tmp_path, FILE))
    assert isinstance(server, Server) and server.head().precision == "float32"


@pytest.mark.parametrize("config", [Config(), hardened_config(64), hardened_config(64, key="ab" * 32, horizon=300)])
def test_what_is_dumped_is_loaded_again(tmp_path, config):
    path = tmp_path / "out.toml"
    text = dump(config, path)
    assert tomllib.loads(text)["version"] == 1
    assert load(path) == config
    odd = Config(
        release=(Entry.of("every-k-changes", changes=3),), admission=(Entry.of("norm-limit", thresholds={"1": 2.0}),)
    )
    assert tomllib.loads(dump(odd))["admission"] == [{"rule": "norm-limit", "thresholds": {"1": 2.0}}]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (("[accountant]", "[acountant]"), "did you mean 'accountant'"),
        (("changes = 2", "change = 2"), "option of release\\[0\\] \\(every-k-changes\\).*did you mean 'changes'"),
        (('rule = "every-k-changes"', 'rule = "every-changes"'), "release rule.*did you mean 'every-k-changes'"),
        (('"identification"', '"identificaton"'), "did you mean 'identification'"),
        (("changes = 2", ""), "release\\[0\\] \\(every-k-changes\\).changes must be given"),
        (("changes = 2", 'changes = "two"'), "release\\[0\\] \\(every-k-changes\\).changes must be a valid integer"),
        (("sigma = 0.25\nmu", "sigma = 0.5\nmu"), "the same in the noise and in its budget"),
        (("version = 1", "version = 2"), "version must be 1"),
        (("version = 1", "version = "), "a valid TOML file"),
        (('rule = "every-k-changes"', ""), "release.0.rule"),
        (("margin = 2", "margin = 8"), "below d = 8"),
        (("[[release]]\nrule = \"every-k-changes\"", "[[admission]]\nrule = \"every-k-changes\""), "admission rule"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_its_place(tmp_path, change, match):
    assert change[0] in FILE
    path = write(tmp_path, FILE.replace(*change, 1))
    with pytest.raises(InputError, match=match):
        build_server(Ledger.zeros(8, 3, 0.5), path).head()


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(InputError, match="can be read"):
        load(tmp_path / "nowhere.toml")


def test_defences_are_saved_and_refused_as_a_whole():
    ledger = Ledger(Summary.of(np.random.default_rng(0).normal(size=(40, 8)), np.arange(40) % 3, 3), 0.5)
    config = hardened_config(8).model_copy(update={"admission": ()})
    made, again = build(config, ledger), build(config, ledger)
    head = made.server(ledger.copy()).head()
    again.load(made.save())
    assert again.server(ledger.copy()).head() == head
    assert isinstance(again.release, Chain)
    other = build(hardened_config(8, sigma=0.3).model_copy(update={"admission": ()}), ledger)
    with pytest.raises(InputError, match="release"):
        other.load(made.save())


OLD = """
version = 1

[[admission]]
rule = "slack"
least_norm = 0.1

[[admission]]
rule = "positive"

[[admission]]
rule = "norm"
thresholds = { 0 = 1.0 }

[[admission]]
rule = "origin"

[[admission]]
rule = "minimum_rows"

[[admission]]
rule = "ownership"
rows = true

[[release]]
rule = "window"
seconds = 1

[[release]]
rule = "every"
changes = 1

[[release]]
rule = "deletion_mask"
sigma = 0.2
collusion = 2

[[release]]
rule = "privacy_budget"
sigma = 0.2
mu = 2
collusion = 3

[accountant]
rule = "identification"
margin = 2
coalition = 4
"""


def test_names_that_rules_and_options_had_once_are_still_read_with_a_note(tmp_path):
    with pytest.warns(OldNameWarning) as caught:
        config = load(write(tmp_path, OLD))
    assert [entry.rule for entry in config.admission] == [
        "algebraic-ownership", "positive-semidefinite", "norm-limit", "signed-messages", "minimum-rows", "ownership",
    ]  # fmt: skip
    assert [entry.rule for entry in config.release] == [
        "minimum-interval", "every-k-changes", "deletion-mask", "privacy-budget",
    ]  # fmt: skip
    colluders = [config.release[2].options, config.release[3].options, config.accountant.options]
    assert [options["colluders"] for options in colluders] == [2, 3, 4]
    told = [str(warning.message) for warning in caught]
    assert config.admission[5].options == {"show_rows": True}
    assert len(told) == 10  # six rules, four options; underscores are no old name
    assert "admission[0] (slack): the rule 'slack' is now called 'algebraic-ownership'" in told
    assert "accountant: the option 'coalition' is now called 'colluders'" in told
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(write(tmp_path, dump(config))) == config


def test_an_option_by_its_old_and_its_new_name_is_refused(tmp_path):
    for more in ("coalition = 4\ncolluders = 4", "colluders = 4\ncoalition = 4"):
        with pytest.warns(OldNameWarning), pytest.raises(InputError, match=r"accountant.colluders must be given once"):
            load(write(tmp_path, OLD.replace("coalition = 4", more)))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('rule = "algebraic-ownershp"', "admission rule.*did you mean 'algebraic-ownership'"),
        ('rule = "slak"', "admission rule must be one of"),
        ('rule = "replay"\ntolerence = 0.1', r"option of admission\[0\] \(replay\).*did you mean 'tolerance'"),
        ('rule = "replay"\ntolerance = "wide"', r"admission\[0\] \(replay\).tolerance must be a valid number"),
        ('rule = "algebraic-ownership"', "least_norm must be given"),
        ('rule = "slack"\ncollusion = 1', "option of admission"),
    ],
)
def test_admission_rules_are_checked_when_the_file_is_loaded(tmp_path, text, match):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OldNameWarning)
        with pytest.raises(InputError, match=match):
            load(write(tmp_path, f"[[admission]]\n{text}\n"))


def test_keys_may_come_later_but_no_server_is_built_without(tmp_path):
    config = load(write(tmp_path, '[[admission]]\nrule = "signed-messages"\n'))
    with pytest.raises(InputError, match="keys must be given"):
        build(config, Ledger.zeros(8, 3, 0.5))


SECRET = "00112233445566778899aabbccddeeff"


@pytest.mark.parametrize(
    "text",
    [
        f'[[release]]\nkey = "{SECRET}"',  # no rule: pydantic would show the whole table
        f'[release]\nrule = "heads"\nkey = "{SECRET}"',  # a table where a list belongs
        f'[[accountant]]\nrule = "identification"\nkey = "{SECRET}"',
        f'[[release]]\nrule = "posterior-noise"\nsigma = 0.1\nkey = ["{SECRET}"]',
        f'[[release]]\nrule = "posterior-noise"\nsigma = 0.1\nkey = "{SECRET}zz"',
        f'[[admission]]\nrule = "signed-messages"\nkeys = ["{SECRET}"]',
        f'[[admission]]\nrule = "replay"\nseed = "{SECRET}"',
        f'[[admission]]\nrule = "replay"\nseed = -{int(SECRET, 16)}',
    ],
)
def test_no_error_shows_a_secret(tmp_path, text):
    with pytest.raises(InputError) as caught:
        build(load(write(tmp_path, text)), Ledger.zeros(8, 3, 0.5))
    words = "".join(traceback.format_exception(caught.value))
    assert SECRET not in words and str(int(SECRET, 16)) not in words


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_a_file_with_secrets_is_for_its_owner_only(tmp_path):
    open_, secret = hardened_config(8), hardened_config(8, key=SECRET)
    path = tmp_path / "server.toml"
    dump(open_, path)
    assert stat.S_IMODE(path.stat().st_mode) & 0o044  # as the umask has it
    dump(secret, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load(path) == secret and list(tmp_path.iterdir()) == [path]
    assert not open_.has_secrets and secret.has_secrets
    assert not hardened_config(8).model_copy(update={"release": (Entry.of("posterior-noise", key=None),)}).has_secrets


def test_rules_that_do_not_suit_the_ledger_are_refused_before_anything_is_in_it():
    for entry in ({"accountant": Entry.of("identification", margin=8)},
                  {"release": (Entry.of("columns", keep=[3]),)},
                  {"release": (Entry.of("top-eigenspace", directions=8),)}):  # fmt: skip
        with pytest.raises(InputError, match=r"below d = 8|from 0 to 2"):
            build_server(Ledger.zeros(8, 3, 0.5), Config(**entry))

import pytest

from exhume.audit.settings import NAMES, from_toml, make_settings
from exhume.errors import InputError


def test_defaults_are_the_make_audit_run():
    settings = make_settings({})
    assert (settings.data, settings.encoder, settings.width) == ("digits", "random-relu", 128)
    assert settings.probe == ("designed", "own-data")
    assert settings.kind == ("record", "class", "client")
    assert settings.precision == ("float64", "float32")
    assert settings.recovery == ("difference", "rank-one")


def test_comma_lists_lists_and_dashes_are_the_same():
    a = make_settings({"probe": "designed, own-data", "fail-on": "label"})
    b = make_settings({"probe": ["designed", "own-data"], "fail_on": "label"})
    assert a == b


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"probe": "designd"}, "did you mean 'designed'"),
        ({"kind": "recordz"}, "did you mean 'record'"),
        ({"recovery": "rank_two"}, "did you mean 'rank-one'"),
        ({"data": "digit"}, "did you mean 'digits'"),
        ({"encoder": "random-rel"}, "did you mean 'random-relu'"),
        ({"precision": "float63"}, "precision must be float64"),
        ({"fail-on": "labels"}, "did you mean 'label'"),
        ({"trials": 0}, "trials must be greater than or equal to 1; got 0"),
        ({"gamma": -1.0}, "gamma must be greater than 0"),
        ({"clients": "many"}, "clients must be a valid integer"),
        ({"precision": ""}, "precision must be a list with at least one name"),
        ({"recovery": "rank-one", "kind": "class"}, "one for the deletion of a class"),
        ({"data": "features"}, "features must be the file to read"),
    ],
)
def test_a_wrong_value_names_the_option(values, words):
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        make_settings(values)


def test_toml_holds_the_same_names(tmp_path):
    file = tmp_path / "audit.toml"
    file.write_text('precision = ["float32"]\nfail-on = "label"\ntrials = 7\njson = "x.json"\n')
    settings = make_settings(from_toml(file))
    assert (settings.precision, settings.fail_on, settings.trials, str(settings.json_file)) == (
        ("float32",),
        "label",
        7,
        "x.json",
    )
    assert {"precision", "fail-on", "trials", "json"} <= set(NAMES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("trails = 3\n", "key in audit.toml must be .*did you mean 'trials'"),
        ("trials = \n", "a valid TOML file"),
        ("json_file = 'x'\n", "did you mean"),
    ],
)
def test_a_wrong_file_is_told_so(tmp_path, text, words):
    file = tmp_path / "audit.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        from_toml(file)


def test_a_missing_file_is_told_so(tmp_path):
    with pytest.raises(InputError, match="a TOML file that can be read"):
        from_toml(tmp_path / "none.toml")


def test_a_seed_is_no_secret():
    with pytest.raises(InputError, match="seed must be greater than or equal to 0; got -1"):
        make_settings({"seed": -1})

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from exhume.cli.data import app
from exhume.cli.main import main


def run(*arguments):
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def run_json(*arguments):
    return json.loads(run(*arguments, "--json"))


def test_list():
    text = run("list")
    for name in ("digits", "mnist", "fashion-mnist", "cifar10", "features", "resnet18", "random-relu", "none"):
        assert name in text
    listed = run_json("list")
    assert {entry["name"] for entry in listed["data"]} == {
        "digits",
        "mnist",
        "fashion-mnist",
        "cifar10",
        "tinyimagenet",
        "features",
    }
    assert {"name": "resnet18", "dim": 512}.items() <= listed["encoders"][-1].items()


def test_features_are_cached_and_shown(home):
    first = run_json("features", "--data", "digits", "--encoder", "random-relu", "--dim", "32")
    second = run_json("features", "--data", "digits", "--encoder", "random-relu", "--dim", "32")
    assert (first["source"], second["source"]) == ("computed", "cache")
    assert first["fingerprint"] == second["fingerprint"]
    assert first["path"].startswith(str(home))
    assert "1438 train and 359 test rows, 32 features, 10 classes" in run("features", "--dim", "32")


def test_own_features(tmp_path):
    np.savez(tmp_path / "mine.npz", features=np.eye(10), labels=np.arange(10) % 2)
    found = run_json("features", "--data", "features", "--features", str(tmp_path / "mine.npz"))
    assert run_json("features", "--features", str(tmp_path / "mine.npz"))["fingerprint"] == found["fingerprint"]
    assert (found["encoder"], found["dim"], found["train"], found["source"]) == ("none", 10, 8, "file")


def test_home_option_wins(tmp_path):
    other = tmp_path / "other"
    run("features", "--dim", "8", "--home", str(other))
    found = run_json("info", "--home", str(other))
    assert found["home"] == str(other)
    assert [entry["state"] for entry in found["features"]] == ["whole"]
    assert run_json("info")["features"] == []


def test_fetch_of_what_is_bundled():
    assert "bundled" in run("fetch", "digits")
    assert run_json("fetch", "digits")["files"] == {}


def test_info_tells_whole_from_damaged(home, tmp_path, monkeypatch):
    entry = run_json("features", "--dim", "8")
    run("features", "--dim", "9")
    (home / "features" / "left-over.partial").mkdir()
    (home / "data" / "mnist").mkdir(parents=True)
    (home / "data" / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(b"?")
    (tmp_path / "given" / "features").mkdir(parents=True)
    (tmp_path / "given" / "features" / "mnist_resnet18_train.npz").write_bytes(b"?")
    (tmp_path / "given" / "resnet18-f37072fd.pth").write_bytes(b"?")
    monkeypatch.setenv("EXHUME_DATA_PATH", str(tmp_path / "given"))
    (Path(entry["path"]) / "train_labels.npy").write_bytes(b"?")
    found = run_json("info")
    assert sorted(row["state"] for row in found["features"]) == ["damaged", "unfinished", "whole"]
    assert [row["state"] for row in found["files"]] == ["damaged"]
    assert [row["serves"] for row in found["data_path"][0]["files"]] == [
        "precomputed features of mnist under resnet18",
        "perhaps resnet18, once unpacked and checked",
    ]
    text = run("info")
    for word in ("left-over.partial", "unfinished", "damaged", str(tmp_path / "given")):
        assert word in text


def test_info_of_an_empty_home():
    text = run("info")
    assert "no fetched files" in text
    assert "no cached features" in text


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        (["features", "--data", "digit"], "(did you mean 'digits'?)"),
        (["features", "--encoder", "resnet"], "resnet18"),
        (["fetch", "mnits"], "fashion-mnist"),
        (["features", "--dim", "0"], "dim must be at least 1"),
    ],
)
def test_bad_usage_ends_with_code_2_and_says_what_is_known(arguments, known, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["exhume", "data", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert known in captured.err.replace("\n", " ")
    assert captured.out == ""


def test_progress_on_a_terminal_and_none_when_piped(monkeypatch):
    piped = CliRunner().invoke(app, ["features", "--dim", "8"])
    assert "1438 train" in piped.stdout and piped.stderr == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # which makes Rich take any output for a terminal
    assert "1797/1797 images" in CliRunner().invoke(app, ["features", "--dim", "9"]).stderr


def test_words_for_people_leave_standard_output_to_json():
    result = CliRunner().invoke(app, ["features", "--dim", "8", "--json"])
    assert json.loads(result.stdout)["dim"] == 8
    assert "1438 train and 359 test rows" in result.stderr

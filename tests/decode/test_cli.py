import json

import numpy as np
import pytest
from typer.testing import CliRunner

from exhume.cli.main import app
from exhume.decode import REGISTRY, build, load, save
from exhume.errors import DataError, InputError
from tests.decode.conftest import needs_torch


def run(*arguments):
    result = CliRunner().invoke(app, ["decode", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_list_names_every_decoder():
    text = run("list")
    assert all(name in text for name in REGISTRY)
    assert {row["name"] for row in json.loads(run("list", "--json"))} == set(REGISTRY)


def test_train_writes_a_decoder_and_show_reads_it(tmp_path, home):
    facts = json.loads(run("train", "ridge", "--rows", 400, "--json"))
    path = home / "decoders" / "ridge-digits-random-relu.safetensors"
    assert (facts["rows"], facts["encoder"], facts["path"]) == (400, "random-relu", str(path))
    assert "400 rows, seed 0" in run("show", path) and f"read from {path}" in run("show", path)
    text = run("show", path, "--data", "digits", "--rows", 60, "--out", tmp_path / "a.png")
    assert "ridge beats mean and class-mean by PSNR, SSIM, re-identified among 60" in text
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    measures = json.loads(run("show", path, "--data", "digits", "--rows", 60, "--out", tmp_path / "b.png", "--json"))
    assert measures["measures"]["ridge"]["PSNR"] > measures["measures"]["class-mean"]["PSNR"]


def test_a_null_is_said_to_show_nothing(tmp_path, home):
    run("train", "mean", "--out", tmp_path / "mean.safetensors")
    text = run("show", tmp_path / "mean.safetensors", "--data", "digits", "--rows", 40, "--out", tmp_path / "a.png")
    assert "these pictures show nothing" in text


def test_bad_input_is_answered_in_one_line(tmp_path, home):
    def fails(error, message, *arguments):
        with pytest.raises(error, match=message):
            run(*arguments)

    fails(InputError, "did you mean 'ridge'", "train", "rigde")
    fails(InputError, "steps must be absent for the ridge decoder", "train", "ridge", "--steps", 5)
    fails(InputError, "as-is must be absent for the ridge decoder", "train", "ridge", "--as-is")
    run("train", "ridge", "--out", tmp_path / "r.safetensors")
    fails(DataError, "its encoder is random-relu, not none", "show", tmp_path / "r.safetensors", "--encoder", "none")
    fails(DataError, "cannot be read as a decoder", "show", tmp_path / "absent.safetensors")
    # A random encoder of the same name and number of features is another one for pictures of another size.
    dim = load(tmp_path / "r.safetensors").record.dim
    other = build("mean").fit(np.ones((2, dim)), np.zeros((2, 28, 28), np.uint8), encoder="random-relu")
    save(other, tmp_path / "other.safetensors")
    message = r"data must be pictures of shape \(28, 28\), which this random-relu encodes; got \(8, 8\)"
    fails(InputError, message, "show", tmp_path / "other.safetensors", "--data", "digits", "--out", tmp_path / "o.png")
    # Pictures of another size are refused by what is known of the data set: nothing is fetched for it.
    fails(InputError, r"got \(28, 28\)", "show", tmp_path / "r.safetensors", "--data", "mnist")
    fails(InputError, "data must be a set with pictures", "train", "ridge", "--data", "features")
    assert not (tmp_path / "o.png").exists() and not (home / "data").exists()
    words = ["decode", "show", str(tmp_path / "r.safetensors"), "--data", "digits", "--rows", "0"]
    assert CliRunner().invoke(app, words).exit_code == 2


@pytest.mark.parametrize("mark", [pytest.param(0, marks=needs_torch)])
def test_show_tells_the_losses_on_the_way(tmp_path, home, mark):
    path = tmp_path / "mlp.safetensors"
    facts = json.loads(run("train", "mlp", "--rows", 64, "--steps", 40, "--batch", 16, "--out", path, "--json"))
    step, loss = facts["history"][0]
    assert len(facts["history"]) == 20 and step == 1
    told = next(line for line in run("show", path).splitlines() if line.startswith("loss on the way: "))
    assert told.startswith(f"loss on the way: {loss:.3f} (step 1), ") and told.count("step") == 7

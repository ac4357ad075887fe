import json
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

from exhume.cli.main import app
from exhume.data import load_features
from exhume.decode import REGISTRY, build, load, save
from exhume.decode.measures import Scores, psnr
from exhume.decode.show import Shown, caption, measured
from exhume.errors import DataError, InputError
from tests.decode.conftest import needs_torch


def run(*arguments):
    result = CliRunner().invoke(app, ["decode", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def show(path, figure, *more):
    return run("show", path, "--data", "digits", "--rows", 60, "--out", figure, *more)


def test_list_names_every_decoder():
    text = run("list")
    assert all(name in text for name in REGISTRY)
    assert {row["name"] for row in json.loads(run("list", "--json"))} == set(REGISTRY)


def test_train_writes_a_decoder_and_show_reads_it(tmp_path, home):
    facts = json.loads(run("train", "ridge", "--rows", 400, "--json"))
    path = home / "decoders" / "ridge-digits-random-relu.safetensors"
    assert (facts["rows"], facts["encoder"], facts["path"]) == (400, "random-relu", str(path))
    assert "400 rows, seed 0" in run("show", path) and f"read from {path}" in run("show", path)
    text = show(path, tmp_path / "a.png")
    assert "ridge beats mean, class-mean and retrieval by PSNR, SSIM and re-identified among 359" in text
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    facts = json.loads(show(path, tmp_path / "b.png", "--json"))
    assert facts["nulls"] == ["mean", "class-mean", "retrieval"] and facts["verdict"].startswith("ridge beats")
    assert list(facts["measures"]) == ["ridge", *facts["nulls"]]
    assert facts["measures"]["ridge"]["PSNR"] > facts["measures"]["retrieval"]["PSNR"]


def test_only_a_diffusion_decoder_can_be_guided(tmp_path, home):
    run("train", "mean", "--out", tmp_path / "m.safetensors")
    with pytest.raises(InputError, match="pull must be left out, but for a diffusion decoder"):
        run("show", tmp_path / "m.safetensors", "--pull", 0.3)


def test_train_names_the_command_that_comes_next_in_one_line(tmp_path, home):
    path = tmp_path / "a folder" / "r.safetensors"
    words = shlex.split(run("train", "mean", "--out", path, "--home", tmp_path / "h").splitlines()[-1])
    assert words == ["exhume", "decode", "show", str(path), "--data", "digits", "--home", str(tmp_path / "h")]
    run(*words[2:], "--rows", 5, "--out", tmp_path / "a.png")


def test_the_measures_are_the_judges_with_the_test_rows_as_records(tmp_path, home):
    run("train", "ridge", "--rows", 400, "--out", tmp_path / "r.safetensors")
    lines = show(tmp_path / "r.safetensors", tmp_path / "a.png").splitlines()
    assert lines[0] == "The first 60 test rows of digits, from their exact random-relu features."
    found = load_features("digits", "random-relu", images=True)
    drawn = load(tmp_path / "r.safetensors").decode(found.test_features[:60], generator=np.random.default_rng(0))
    tests, trained = (
        part.reshape(len(part), 1, -1) / 255 for part in (found.images.test_images, found.images.train_images)
    )
    flat = drawn.reshape(1, 60, -1)
    labels = found.train_labels[((trained - flat) ** 2).sum(axis=2).argmin(axis=0)] == found.test_labels[:60]
    own = ((tests - flat) ** 2).sum(axis=2).argmin(axis=0) == np.arange(60)
    row = next(line.split() for line in lines if line.split()[:1] == ["ridge"])
    assert row[-2:] == [str(labels.sum()), str(own.sum())]
    assert float(row[1]) == pytest.approx(psnr(drawn, found.images.test_images[:60] / 255).mean(), abs=0.05)


def test_retrieval_is_captioned_as_other_pictures(tmp_path, home):
    run("train", "retrieval", "--out", tmp_path / "r.safetensors")
    text = show(tmp_path / "r.safetensors", tmp_path / "a.png")
    said = "These are other pictures, of the training rows with the nearest features, not drawings of the record"
    assert said in text and "beats" not in text and "retrieval (another picture)" in text
    facts = json.loads(show(tmp_path / "r.safetensors", tmp_path / "a.png", "--json"))
    assert facts["verdict"].startswith(said) and facts["nulls"] == ["mean", "class-mean"]
    shown = measured(load(tmp_path / "r.safetensors"), "digits", home=None, rows=5, seed=0)
    assert said in " ".join(caption(shown).split())


@pytest.mark.parametrize("name", ["mean", "class-mean"])
def test_a_null_is_said_to_be_one(tmp_path, home, name):
    run("train", name, "--out", tmp_path / "null.safetensors")
    text = show(tmp_path / "null.safetensors", tmp_path / "a.png")
    assert f"{name} is a null: these pictures show nothing of the rows but, at most, their label" in text
    assert "beats" not in text


def test_what_one_null_does_as_well_shows_nothing():
    def scores(psnr):
        level, never = np.full(40, 0.5), np.zeros(40, bool)
        return Scores(np.full(40, psnr), level, never, never, None)

    drawn = {"ridge": scores(15.0), "mean": scores(10.0), "class-mean": scores(12.0), "retrieval": scores(15.5)}
    shown = Shown("ridge", "", np.zeros((40, 8, 8)), dict.fromkeys(drawn, np.zeros((40, 8, 8))), drawn, 40, 40)
    assert shown.verdict().startswith("ridge does not beat its nulls by any measure: these pictures show nothing")
    shown.scores["retrieval"] = scores(14.5)
    assert shown.verdict().startswith("ridge beats mean, class-mean and retrieval by PSNR (")


def test_bad_input_is_answered_in_one_line(tmp_path, home):
    def fails(error, message, *arguments):
        with pytest.raises(error, match=message):
            run(*arguments)

    fails(InputError, "did you mean 'ridge'", "train", "rigde")
    fails(InputError, "steps must be absent for the ridge decoder", "train", "ridge", "--steps", 5)
    fails(InputError, "as-is must be absent for the ridge decoder", "train", "ridge", "--as-is")
    run("train", "ridge", "--out", tmp_path / "r.safetensors")
    fails(DataError, "its encoder is random-relu, not none", "show", tmp_path / "r.safetensors", "--encoder", "none")
    fails(DataError, "cannot be read as a decoder: No such file or directory$", "show", tmp_path / "absent.safetensors")
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
    assert told.startswith(f"loss on the way: {loss:.3g} (step 1), ") and told.count("step") == 7

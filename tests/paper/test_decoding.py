"""The figures of decoded pictures, on digits: the attack is real, the numbers are small."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from exhume.data import load_features
from exhume.decode import Decoder, Learnt, available
from exhume.errors import DataError
from exhume.jobs.store import Store
from exhume.paper import latent_diffusion
from exhume.paper.cells import Split, dealt
from exhume.paper.decoding import COLUMNS, Scene, packed, pictures_of, victims
from exhume.paper.execute import execute
from exhume.paper.feature_source import FeatureSource
from exhume.paper.local_decoder import ALPHAS, TABLES
from exhume.paper.registry import runnable
from exhume.paper.study import QUICK, Study
from exhume.paper.values import Count, Words

(TABLE,) = TABLES
STUDY = Study(FeatureSource("digits", "random-relu", 64), replace(QUICK, decoded=30), members=8, alpha=0.5)
needs_torch = [
    pytest.mark.extras,
    pytest.mark.skipif(not available(), reason="the 'decode' extra (torch and diffusers) is not installed"),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory):
    pytest.importorskip("torch", reason="the 'decode' extra is not installed")
    fitted = Scene.fitted
    with pytest.MonkeyPatch.context() as patch:
        small = {"mlp": {"steps": 100, "hidden": 64}}
        patch.setattr(Scene, "fitted", lambda self, name, encoder: fitted(self, name, encoder, **small.get(name, {})))
        return execute(TABLE.jobs(STUDY), Store(tmp_path_factory.mktemp("store") / "s"))


def test_the_victims_are_nobodys_own_rows() -> None:
    splits = tuple(Split(0, 8, alpha) for alpha in ALPHAS)
    drawn = victims(STUDY.source, splits, 30)
    assert len(set(drawn.tolist())) == 30
    for split in splits:
        stage = dealt(STUDY.source, split)
        assert not set(drawn) & set(stage.parts[stage.attacker].tolist())


@pytest.mark.parametrize("mark", [pytest.param(0, marks=needs_torch)])
def test_every_row_has_its_records_and_its_nulls(results, mark, tmp_path: Path) -> None:
    rows = {row.name: row for row in TABLE.rows([STUDY], results)}
    assert all(row.trials == 30 and set(row.cells) <= set(COLUMNS) for row in rows.values())
    iid = next(row for name, row in rows.items() if name.startswith("IID") and name.endswith("mlp, float64, rank-one"))
    exact, own = rows["exact feature, IID: mlp"], rows["the record's own picture"]
    assert iid.cells["PSNR, dB"].mean == pytest.approx(exact.cells["PSNR, dB"].mean, abs=1e-3)
    assert own.cells["re-identified, pixels"] == Count(30, 30)
    assert "PSNR" in str(iid.cells["beats its nulls by"])
    drawn = [f"mlp, {heads}, {way}" for heads in ("float64", "float32") for way in ("rank-one", "difference")]
    drawn += ["ridge", "null: mean", "null: class mean of the recovered label"]
    drawn += ["null: retrieval (another record's picture)"]
    for partition in ("α = 0.05", "α = 0.5", "IID"):
        kinds = [name.split(": ", 1)[1] for name in rows if name.startswith(f"{partition} (")]
        assert kinds == drawn, partition
    for file in ("a.svg", "a.png"):
        TABLE.draw([STUDY, STUDY], results, tmp_path / file)
    assert (tmp_path / "a.svg").stat().st_size < 300_000 and (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


class Noise(Decoder):
    """Draws noise, whatever it is told: what a model that has learnt nothing does."""

    name = "noise"

    def _fit(self, rows, seed, tick):
        return Learnt({}, 0.0)

    def _decode(self, features, labels, generator):
        return generator.random((len(features), 64))


def test_samples_of_a_public_model_and_their_mean_stand_beside_public_nulls(monkeypatch, tmp_path: Path) -> None:
    public = load_features("digits", "random-relu", dim=64, images=True)
    model = Noise().fit(public.train_features, public.images.train_images, encoder="random-relu")
    weights = tmp_path / "decoders" / "diffusion-tinyimagenet-random-relu.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"a model")
    study = replace(STUDY, source=replace(STUDY.source, home=str(tmp_path)))
    monkeypatch.setattr(latent_diffusion, "_public_rows", lambda *_: public)
    monkeypatch.setattr(latent_diffusion, "_model", lambda *_: model)
    latent_diffusion._public.cache_clear()
    (table,) = latent_diffusion.TABLES
    (job,) = table.jobs(study)
    # Run here and now: a worker would not see the stand-ins.
    found = {job: job.run()}
    latent_diffusion._public.cache_clear()
    rows = {row.name: row for row in table.rows([study], found)}
    assert all(row.trials == 30 for row in rows.values()) and len(rows) == 7
    assert str(rows["one sample, float64"].cells["beats its nulls by"]) == "nothing: shows nothing"
    assert (
        rows["one sample, float64"].cells["PSNR, dB"].mean < rows["mean of 8 samples, float64"].cells["PSNR, dB"].mean
    )
    draws = [np.random.default_rng(seed).random((30, 8, 8)) for seed in range(8)]
    assert np.array_equal(pictures_of(found[job]["many"]["pictures"]), pictures_of(packed(np.mean(draws, axis=0)[:10])))
    # The public pictures of this test hold the records themselves: retrieval must find every one.
    retrieved = rows["null: retrieval from public images (another picture)"]
    assert retrieved.cells["re-identified, pixels"] == Count(30, 30)
    assert [name for name in rows if name.startswith("null: ")] == list(rows)[-3:]
    table.draw([study], found, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


def test_a_model_that_changed_since_the_work_was_planned_is_refused(tmp_path: Path) -> None:
    source = replace(STUDY.source, home=str(tmp_path))
    with pytest.raises(DataError, match="is not the file with SHA-256 aaaa that this work was planned with"):
        latent_diffusion._model(source, "aaaa")
    (tmp_path / "decoders").mkdir()
    latent_diffusion.weights_file(tmp_path, source.encoder).write_bytes(b"another model")
    with pytest.raises(DataError, match="is not the file with SHA-256 aaaa that this work was planned with"):
        latent_diffusion._model(source, "aaaa")


def test_what_beats_no_null_shows_nothing() -> None:
    from exhume.paper.decoding import row

    scores = {"psnr": [10.0] * 30, "ssim": [0.1] * 30, "label": [False] * 30, "pixels": [False] * 30, "second": None}
    result = {"scores": scores, "feature_error": None}
    better = {"scores": {**scores, "psnr": [11.0] * 30}, "feature_error": None}
    assert row(STUDY, "x", result, [result]).cells["beats its nulls by"] == Words("nothing: shows nothing")
    assert row(STUDY, "x", better, [result]).cells["beats its nulls by"] == Words("PSNR")
    # One null that is as good is enough to take the claim away.
    assert row(STUDY, "x", better, [result, better]).cells["beats its nulls by"] == Words("nothing: shows nothing")
    assert "beats its nulls by" not in row(STUDY, "x", result, []).cells


def test_pictures_travel_as_text() -> None:
    pictures = np.random.default_rng(0).random((3, 8, 8, 3))
    assert np.array_equal(pictures_of(packed(pictures)), np.rint(pictures * 255).astype(np.uint8))


def test_tables_that_cannot_run_are_left_out_of_all_and_refused_by_name(study: Study, monkeypatch) -> None:
    found, left = runnable(["all"], [study])
    assert set(left) == {"local_decoder", "latent_diffusion"} and "needs pictures" in left["local_decoder"]
    assert TABLE not in found
    with pytest.raises(DataError, match="local_decoder needs pictures, and your own features have none"):
        runnable(["all", "local_decoder"], [study])
    monkeypatch.setattr("exhume.paper.decoding.available", lambda: False)
    assert "needs the 'decode' extra" in runnable(["all"], [STUDY])[1]["local_decoder"]
    monkeypatch.setattr("exhume.paper.decoding.available", lambda: True)
    elsewhere = replace(STUDY, source=replace(STUDY.source, home="/nowhere"))
    with pytest.raises(DataError, match=r"exhume decode train diffusion .* random-relu --steps 2600$"):
        runnable(["latent_diffusion"], [elsewhere])


@pytest.mark.parametrize("page", ["docs/results.md", "docs/decode.md"])
def test_the_pages_quote_the_training_of_the_published_model(page: str) -> None:
    assert latent_diffusion.training() in " ".join((latent_diffusion.__doc__ or "").split())
    assert latent_diffusion.training() in (Path(__file__).parents[2] / page).read_text(encoding="utf-8")

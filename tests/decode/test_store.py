import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from exhume.decode import build, load, save
from exhume.decode.store import read_arrays, write_arrays
from exhume.errors import DataError, InputError


@pytest.fixture
def file(digits, tmp_path):
    decoder = build("ridge").fit(digits.train_features, digits.images.train_images, encoder="random-relu")
    save(decoder, tmp_path / "ridge.safetensors")
    return tmp_path / "ridge.safetensors"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"decoder": "mlp"}, "of another training record: its decoder is ridge, not mlp"),
        ({"encoder": "resnet18"}, "of another training record: its encoder is random-relu, not resnet18"),
        ({"data": "0" * 64}, "of another training record: its data is"),
    ],
)
def test_weights_of_another_training_record_are_refused(file, asked, message):
    with pytest.raises(DataError, match=message):
        load(file, **asked)


def test_every_damaged_byte_is_noticed(file):
    content = bytearray(file.read_bytes())
    length = int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(0)
    places = [8 + length, len(content) - 1, *rng.integers(8 + length, len(content), 20)]
    # Also in the record: its seed.
    places.append(bytes(content).index(b'\\"seed\\": 0') + len(b'\\"seed\\": '))
    for place in places:
        broken = bytearray(content)
        broken[place] ^= 1
        file.write_bytes(broken)
        with pytest.raises(DataError, match="damaged"):
            load(file)
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="cannot be read as a decoder"):
        load(file)


def test_equal_decoders_are_equal_files_and_any_reader_of_safetensors_reads_them(file, digits):
    before = file.read_bytes()
    facts = json.loads(before[8 : 8 + int.from_bytes(before[:8], "little")])
    assert list(facts) == sorted(facts) and list(facts["__metadata__"]) == ["exhume", "format", "sha256"]
    save(load(file), file)
    assert file.read_bytes() == before
    arrays, oracle = read_arrays(file)[0], load_file(file)
    assert set(arrays) == set(oracle) and all(np.array_equal(arrays[name], oracle[name]) for name in arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"options": {"x": 1}}, "holds no ridge decoder's training record: its options are x"),
        ({"decoder": "mlp"}, "holds no mlp decoder's training record: its options are none"),
        ({"shape": "ab"}, "holds no decoder's training record"),
        ({"dim": "128"}, "holds no decoder's training record"),
        ({"more": 1}, "holds no decoder's training record"),
        ({"history": 3}, "holds no decoder's training record"),
        ({"options": {"device": "cuda"}}, "its options are device"),
    ],
)
def test_a_record_that_is_none_is_refused(file, change, message):
    arrays, facts = read_arrays(file)
    write_arrays(file, arrays, {**facts, **change})
    with pytest.raises(DataError, match=message):
        load(file)


@pytest.mark.parametrize("change", [{"centre": None}, {"weights": np.zeros((3, 64))}])
def test_tensors_of_another_decoder_are_refused(file, digits, change):
    arrays, facts = read_arrays(file)
    write_arrays(file, {n: a for n, a in {**arrays, **change}.items() if a is not None}, facts)
    with pytest.raises(DataError, match="the tensors are not those of the record's ridge decoder"):
        load(file).decode(digits.test_features[:2], generator=np.random.default_rng(0))


def test_what_is_not_a_decoder_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot be read as a decoder"):
        load(tmp_path / "absent.safetensors")
    for content in (b"", b"short", b"\xff" * 100, json.dumps({}).encode()):
        (tmp_path / "odd").write_bytes(content)
        with pytest.raises(DataError, match="cannot be read as a decoder"):
            load(tmp_path / "odd")
    save_file({"a": np.zeros(3)}, tmp_path / "foreign.safetensors")
    with pytest.raises(DataError, match="cannot be read as a decoder"):
        load(tmp_path / "foreign.safetensors")


def test_a_decoder_that_learnt_nothing_is_not_written(tmp_path):
    with pytest.raises(InputError, match="one that was fitted or loaded"):
        save(build("mean"), tmp_path / "d.safetensors")
    assert not list(tmp_path.glob("*.safetensors"))


def test_a_write_that_fails_leaves_the_old_file(file, digits, monkeypatch):
    before = file.read_bytes()
    other = build("mean").fit(digits.train_features, digits.images.train_images)
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save(other, file)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir() if path.is_file()] == [file.name]

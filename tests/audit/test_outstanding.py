import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhume import Head, Summary
from exhume.audit.outstanding import Outstanding, read, write
from exhume.errors import InputError


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.integers(0, 3))
def test_what_is_written_is_read(tmp_path_factory, seed, moments, doubts):
    rng = np.random.default_rng(seed)

    def summary():
        made = Summary.of(rng.standard_normal((3, 5)), [0, 1, 1], 2)
        return Summary.zeros(5, 2).with_moment(made.moment) if moments else made

    left = Outstanding(
        Head(rng.standard_normal((5, 2)), "float32"), summary(), tuple(summary() for _ in range(doubts)), 3e-6, "a:b"
    )
    folder = tmp_path_factory.mktemp("undo")
    path = write(folder, left)
    found = read(path)
    assert found.baseline == left.baseline
    assert (found.total, found.doubts) == (left.total, left.doubts)
    assert (found.tolerance, found.target) == (3e-6, "a:b")
    assert found.total.gram_is_zero == moments
    assert [p.name for p in folder.iterdir()] == ["undo-1.safetensors"]
    assert write(folder, left).name == "undo-2.safetensors"


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x10\x00\x00\x00\x00\x00\x00\x00{}"])
def test_another_file_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(InputError, match="undo must be a file that a live audit left"):
        read(path)
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "none")


def test_a_safetensors_file_of_something_else_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"baseline": np.zeros((2, 2))}, tmp_path / "y", metadata={"format": "other"})
    with pytest.raises(InputError, match="other"):
        read(tmp_path / "y")
    save_file({"baseline": np.zeros((2, 2))}, tmp_path / "z")
    with pytest.raises(InputError, match="KeyError"):
        read(tmp_path / "z")

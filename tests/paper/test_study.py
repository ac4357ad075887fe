from __future__ import annotations

import pytest

from exhume.paper.study import FULL, QUICK


def test_sizes() -> None:
    assert FULL.resized(["partitions=5"]).partitions == 5
    assert "the clients of 5 partitions" in FULL.resized(["partitions=5"]).sentence()
    assert FULL.resized(["own-records=5"]).own_records == 5
    assert QUICK.resized([]) is QUICK
    for wrong in ("partitions=0", "partitions=x", "partition=1", "name=1"):
        with pytest.raises(ValueError, match="size"):
            FULL.resized([wrong])

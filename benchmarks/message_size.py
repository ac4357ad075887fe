"""Bytes of the message that deletes one record, by its factor and dense, and the memory that it takes.

python benchmarks/message_size.py [--dims 512 4096 10000] [--classes 10] [--json]
"""

import argparse
import json
import tracemalloc

import numpy as np

import exhume as ex
from exhume.protocol.wire import decode_update, encode_update


def measure(d, classes):
    row = np.random.default_rng(0).random((1, d))
    tracemalloc.start()
    data = encode_update(ex.Update.deleting(ex.Summary.of(row, [0], classes)))
    decode_update(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    dense = 8 * (2 * d * d + 2 * d * classes)  # two grams and two moments; the header is some hundred bytes
    return {"d": d, "bytes": len(data), "dense_bytes": dense, "peak_bytes": peak}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=[512, 4096, 10_000])
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    rows = [measure(d, options.classes) for d in options.dims]
    if options.json:
        print(json.dumps({"classes": options.classes, "one_record": rows}))
        return
    for r in rows:
        print(f"d = {r['d']:6d}: {r['bytes']:,} bytes, dense {r['dense_bytes']:,}; peak memory {r['peak_bytes']:,}")


if __name__ == "__main__":
    main()

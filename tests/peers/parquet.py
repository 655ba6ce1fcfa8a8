#!/usr/bin/env python3
"""Checks deploy/convert-parquet on a small table of every kind of column. Needs pyarrow.

usage: tests/peers/parquet.py
"""
import os
import subprocess
import tempfile

import numpy
import pyarrow
import pyarrow.parquet

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "convert-parquet")


def convert(folder, table, copies=1):
    path = os.path.join(folder, "in.parquet")
    pyarrow.parquet.write_table(table, path, row_group_size=2)
    out = os.path.join(folder, "out")
    run = subprocess.run([SCRIPT] + [path] * copies + [out], capture_output=True, text=True)
    return run, out


def main():
    x = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    columns = {
        "x": pyarrow.array(x, pyarrow.list_(pyarrow.float32(), 2)),
        "list": pyarrow.array(x, pyarrow.list_(pyarrow.float64())),
        "kind": pyarrow.array(["b", "a", "b"]),
        "coded": pyarrow.array(["q", "p", "q"]).dictionary_encode(),
        "n": pyarrow.array([1, 2, 3], pyarrow.int16()),
        "flag": pyarrow.array([True, False, True]),
    }
    expected = {"x": x, "list": x, "kind": [1, 0, 1], "coded": [1, 0, 1], "n": [1, 2, 3],
                "flag": [True, False, True]}
    with tempfile.TemporaryDirectory() as folder:
        run, out = convert(folder, pyarrow.table(columns), copies=2)
        assert run.returncode == 0, run.stderr
        assert "format: npy, files: {x: x.npy, list: list.npy" in run.stdout, run.stdout
        for name, values in expected.items():
            read = numpy.load(os.path.join(out, name + ".npy"))
            assert read.tolist() == values * 2, (name, read)
        with open(os.path.join(out, "kind.txt"), encoding="utf-8") as names:
            assert names.read() == "a\nb\n"
        refused = {
            "values, received 1 nulls": {"a": [1, None]},
            "lists of one size": {"a": [[1], [1, 2]]},
            "a name of letters": {"a b": [1]},
            "numbers or texts": {"a": pyarrow.array([1], pyarrow.timestamp("s"))},
            "at least one row": {"a": pyarrow.array([], pyarrow.int8())},
        }
        for message, table in refused.items():
            run, _ = convert(folder, pyarrow.table(table))
            assert run.returncode == 1 and message in run.stderr, (message, run)
    print("parquet: as expected")


main()

#!/usr/bin/env python3
"""Checks deploy/convert-parquet on a small table of every kind of column, and trains on what it
wrote. Without pyarrow it checks that the script says so, and skips the rest.

usage: tests/peers/parquet.py LEAT
"""
import os
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "convert-parquet")

GRAPH = """<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
table (float[N,2] x, int64[N] coded) => (float[N,2] logits) {
  e = leat.Embedding <input_dim = 2, output_dim = 3> (coded)
  both = Concat <axis = 1> (x, e)
  logits = leat.Dense <units = 2> (both)
}
"""
JOB = """version: 1
name: columns
model: {graph: model.onnxtxt, inputs: {x: x, coded: coded}}
%s
loss: {name: cross_entropy, labels: kind}
optimizer: {name: sgd, learning_rate: 0.1}
global_batch_size: 2
steps: 6
"""


def convert(folder, table, copies=1):
    import pyarrow.parquet
    path = os.path.join(folder, "in.parquet")
    pyarrow.parquet.write_table(table, path, row_group_size=2)
    out = os.path.join(folder, "out")
    run = subprocess.run([SCRIPT] + [path] * copies + [out], capture_output=True, text=True)
    return run, out


def check_columns(folder):
    """Converts columns of all kinds. Returns the text that the script prints."""
    import numpy
    import pyarrow
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
    run, out = convert(folder, pyarrow.table(columns), copies=2)
    assert run.returncode == 0, run.stderr
    assert "format: npy, files: {x: x.npy, list: list.npy" in run.stdout, run.stdout
    for name, values in expected.items():
        read = numpy.load(os.path.join(out, name + ".npy"))
        assert read.tolist() == values * 2, (name, read)
    with open(os.path.join(out, "kind.txt"), encoding="utf-8") as names:
        assert names.read() == "a\nb\n"
    return run.stdout


def check_refusals(folder):
    import pyarrow
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


def train(leat, folder, data):
    """Trains on the converted columns, with the lines that the script printed."""
    with open(os.path.join(folder, "model.onnxtxt"), "w", encoding="utf-8") as out:
        out.write(GRAPH)
    with open(os.path.join(folder, "job.yaml"), "w", encoding="utf-8") as out:
        out.write(JOB % data.rstrip("\n"))
    run = subprocess.run([leat, "train", "job.yaml", "--output", "run"], cwd=folder,
                         capture_output=True, text=True)
    assert run.returncode == 0 and "sha256" in run.stdout + run.stderr, run
    looked = subprocess.run([leat, "data", "inspect", "job.yaml"], cwd=folder,
                            capture_output=True, text=True)
    assert looked.returncode == 0 and "6 rows" in looked.stdout, looked


def main():
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        run = subprocess.run([SCRIPT, "a.parquet", "out"], capture_output=True, text=True)
        assert run.returncode == 1 and "expected the Python package" in run.stderr, run
        print("skipped: expected the Python package pyarrow")
        return
    with tempfile.TemporaryDirectory() as folder:
        data = check_columns(folder)
        train(sys.argv[1], folder, data)
        check_refusals(folder)
    print("parquet: as expected")


if __name__ == "__main__":
    main()

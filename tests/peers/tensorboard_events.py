#!/usr/bin/env python3
"""Compares what TensorBoard reads of `leat metrics RUN --tensorboard DIR --graph --histograms
--gradients` with metrics.jsonl, with the weights of the newest checkpoint, and with the names of
the graph's inputs. Each weight that has gradients has one for each of its elements. The summaries
that the graph has saved are compared, too. `--summaries`: these and the numbers alone, as of a
program, which has no gradients and no graph to show.

    tensorboard_events.py LEAT RUN [--summaries]
"""
import glob
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

EVERYTHING = {"scalars": 0, "histograms": 0, "tensors": 0}


def expected(run):
    numbers = {}
    with open(f"{run}/metrics.jsonl", encoding="utf-8") as log:
        for row in map(json.loads, log):
            flat = {**row, **row.get("timing", {})}
            for name, value in flat.items():
                if name in ("step", "epoch", "timing") or not isinstance(value, (int, float)):
                    continue
                if "epoch" in row:
                    name = f"validation/{name[4:]}" if name.startswith("val_") else f"epoch/{name}"
                numbers[name, row["step"]] = np.float32(value)
    return numbers


def check_numbers(board, run):
    read = {(tag, event.step): np.float32(event.value)
            for tag in board.Tags()["scalars"] if not tag.startswith("summaries/")
            for event in board.Scalars(tag)}
    if read != expected(run):
        sys.exit(f"expected {len(expected(run))} numbers, received {len(read)}, or other ones")
    print(f"{len(read)} numbers are those of metrics.jsonl")


def check_histograms(board, weights):
    tags = [tag for tag in board.Tags()["histograms"] if tag.startswith("weights/")]
    if sorted(tags) != sorted(f"weights/{name}" for name in weights.files):
        sys.exit(f"expected histograms of {weights.files}, received {tags}")
    for name in weights.files:
        last = board.Histograms(f"weights/{name}")[-1].histogram_value
        values = weights[name].astype(np.float64).ravel()
        received = (last.num, last.min, last.max, sum(last.bucket))
        if received != (values.size, values.min(), values.max(), values.size):
            sys.exit(f"{name}: expected {values.size} elements from {values.min()} to "
                     f"{values.max()}, received {received}")
        np.testing.assert_allclose([last.sum, last.sum_squares],
                                   [values.sum(), np.square(values).sum()], rtol=1e-9, atol=1e-12)
        limits = np.array(last.bucket_limit)
        parts = np.searchsorted(limits, values, side="right").clip(max=len(limits) - 1)
        counts = np.bincount(parts, minlength=len(limits))
        # An element on a border may be in either part, by a last bit of the border.
        if np.abs(counts - last.bucket).sum() > 2 + 1e-4 * values.size:
            sys.exit(f"{name}: expected {counts}, received {last.bucket}")
    print(f"{len(tags)} histograms are those of the weights")


def check_gradients(board, weights):
    tags = [tag for tag in board.Tags()["histograms"] if tag.startswith("gradients/")]
    for tag in tags:
        elements = weights[tag.removeprefix("gradients/")].size
        for event in board.Histograms(tag):
            if event.histogram_value.num != elements:
                sys.exit(f"{tag}: expected {elements} elements, received {event}")
    if not tags:
        sys.exit("expected distributions of gradients")
    print(f"{len(tags)} weights have gradients")


def check_summaries(board, run):
    """The values of leat.Save nodes; a run may have none."""
    count = 0
    for path in sorted(glob.glob(f"{run}/saved/summaries/*.safetensors")):
        step = int(pathlib.Path(path).stem)
        for name, value in load_file(path).items():
            tag = f"summaries/{name}"
            if value.size == 1:
                read = [e.value for e in board.Scalars(tag) if e.step == step]
                received, wanted = read, [np.float32(value.item())]
            else:
                read = [e.histogram_value for e in board.Histograms(tag) if e.step == step]
                received = [(e.num, e.min, e.max) for e in read]
                wanted = [(value.size, value.min(), value.max())]
            if received != wanted:
                sys.exit(f"{tag} of step {step}: expected {wanted}, received {received}")
            count += 1
    print(f"{count} summaries are those of the graph")


def check_graph(board):
    graph = board.Graph()
    names = {node.name for node in graph.node}
    for node in graph.node:
        for read in node.input:
            if read.lstrip("^").split(":")[0] not in names:
                sys.exit(f"{node.name}: expected an input that is there, received {read}")
    if len(names) != len(graph.node) or not any(n.op == "Placeholder" for n in graph.node):
        sys.exit("expected unique names, and an input")
    print(f"the graph has {len(names)} nodes")


def main():
    leat, run, *only = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        what = [] if only else ["--graph", "--histograms", "--gradients"]
        command = [leat, "metrics", run, "--tensorboard", folder, *what]
        path = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        board = EventAccumulator(path, size_guidance=EVERYTHING)
        board.Reload()
        check_numbers(board, run)
        check_summaries(board, run)
        if only:
            return
        subprocess.run([leat, "checkpoint", "export", run, "-o", f"{folder}/weights.npz"],
                       check=True, capture_output=True)
        check_histograms(board, np.load(f"{folder}/weights.npz"))
        check_gradients(board, np.load(f"{folder}/weights.npz"))
        check_graph(board)


main()

#!/usr/bin/env python3
"""Exports modules with torch.cond, scan, while_loop and scripted loops, and trains them in Leat.

    control_flow.py [LEAT] [--steps 10] [--keep FOLDER]

Each module learns random records in float64 with plain SGD, in PyTorch and in Leat from the same
weights. The script prints the ops of each file and the largest relative difference of a step's loss,
and exits with 1 if one is above 1e-9. Needs torch, onnx and onnxscript.
"""
import argparse
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional as F

from side_by_side import BINARIES, own_environment

RECORDS, BATCH, RATE = 24, 6, 0.1


class Cond(nn.Module):
    """The branch depends on the batch. The roots of the one would be NaN in the other."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x):
        return torch.cond(x.mean() > 0, lambda x: torch.sqrt(torch.relu(self.a(x)) + x.mean()),
                          lambda x: torch.tanh(self.b(x)), (x,))


class Scan(nn.Module):
    """A recurrence; its weights are captured."""

    def __init__(self):
        super().__init__()
        self.into, self.state, self.out = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 4)

    def forward(self, x):
        entries = self.into(x).transpose(0, 1)

        def cell(state, entry):
            after = torch.tanh(entry + self.state(state))
            return after, after.clone()

        last, _ = scan(cell, torch.zeros_like(entries[0]), entries)
        return self.out(last)


class While(nn.Module):
    """A counter ends the loop, which has no bound in the file. The gradient of PyTorch 2.13's
    while_loop differs from that of the same iterations in Python, so those are the reference."""

    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.Linear(8, 8), nn.Linear(8, 4)
        self.by_hand = False

    def forward(self, x):
        if self.by_hand:
            for _ in range(4):
                x = torch.tanh(self.layer(x))
            return self.out(x)

        def body(i, v):
            return i + 1, torch.tanh(self.layer(v))

        return self.out(while_loop(lambda i, v: i < 4, body, (torch.tensor(0), x))[1])


class Scripted(nn.Module):
    """A Loop with an If in it, of the older exporter."""

    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        i = 0
        while i < 3:
            if bool(x.sum() > 0):
                x = torch.tanh(self.layer(x))
            else:
                x = torch.sigmoid(self.layer(x)) - 0.25
            i += 1
        return self.out(x)


CASES = {"cond": (Cond, (8,)), "scan": (Scan, (7, 6)), "while": (While, (8,)),
         "scripted": (Scripted, (8,))}


def export(name, module, x, path):
    if name == "scripted":
        torch.onnx.export(torch.jit.script(module), (x,), path, dynamo=False, input_names=["x"],
                          output_names=["y"], training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False, dynamic_axes={"x": {0: "N"}})
        return
    # torch.while_loop wants a known batch.
    shapes = None if name == "while" else ({0: torch.export.Dim("N")},)
    torch.onnx.export(module.train(), (x,), path, dynamo=True, optimize=False, verbose=False,
                      input_names=["x"], output_names=["y"], external_data=False,
                      dynamic_shapes=shapes)


def torch_losses(module, x, labels, steps):
    module = copy.deepcopy(module).double()
    module.by_hand = True
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    losses = []
    for step in range(steps):
        rows = [(step * BATCH + i) % RECORDS for i in range(BATCH)]
        loss = F.cross_entropy(module(x[rows].double()), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def leat_losses(leat, folder, x, labels, steps):
    np.save(folder / "x.npy", x.numpy())
    np.save(folder / "labels.npy", labels.numpy())
    (folder / "job.yaml").write_text(f"""version: 1
name: control-flow
model: {{graph: model.onnx}}
data: {{root: ., shuffle: false, train: {{format: npy, files: {{x: x.npy, labels: labels.npy}}}}}}
loss: cross_entropy
optimizer: {{name: sgd, learning_rate: {RATE}}}
global_batch_size: {BATCH}
steps: {steps}
shards: 1
precision: float64
""", encoding="utf-8")
    done = subprocess.run([leat, "train", folder / "job.yaml", "--output", folder / "run"],
                          env=own_environment(), capture_output=True, text=True, timeout=300,
                          check=False)
    if done.returncode != 0:
        raise SystemExit(f"leat train {folder}/job.yaml: exit code {done.returncode}\n{done.stderr}")
    with open(folder / "run" / "metrics.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row["loss"] for row in rows if "epoch" not in row][:steps]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("leat", nargs="?", default=os.path.join(BINARIES, "leat"))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--keep", type=pathlib.Path, help="write the files here, and keep them")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        for name, (kind, shape) in CASES.items():
            folder = (arguments.keep or pathlib.Path(temporary)) / name
            folder.mkdir(parents=True, exist_ok=True)
            torch.manual_seed(3)
            module, x = kind(), torch.randn(RECORDS, *shape)
            labels = torch.randint(4, (RECORDS,))
            export(name, module, x[:BATCH], str(folder / "model.onnx"))
            ops = {node.op_type for node in onnx.load(folder / "model.onnx").graph.node}
            ours = leat_losses(arguments.leat, folder, x, labels, arguments.steps)
            theirs = torch_losses(module, x, labels, arguments.steps)
            worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))
            # A comparison with NaN is no success.
            good = worst <= 1e-9
            failed = failed or not good
            print(f"{name:10s} {worst:.1e} {'ok' if good else 'FAILED'}  "
                  f"{' '.join(sorted(ops & {'If', 'Loop', 'Scan'}))}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Exports a module in every way that PyTorch has and asks Leat what of it is trained.

torch_export.py [LEAT]: the binary `leat`, or that of build/release. Exits 1 if a file of the two
ways that Leat advises comes with another note than how many variables it trains, if that is not the
number of the module's parameters (with dynamo=False, which does not tell them apart, of its buffers,
too), or if one of the other ways comes without a note of what it lost. Needs torch, onnx and
onnxscript.
"""
import os
import re
import subprocess
import sys
import tempfile
import warnings

import torch
from torch import nn

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.gamma = nn.Parameter(1e-6 * torch.ones(channels, 1, 1))

    def forward(self, x):
        return x + self.gamma * torch.relu(self.norm(self.conv(x)))


class Net(nn.Module):
    """Has what exporters fold and merge: equal weights, three kinds of normalized layers, a norm
    that is used twice, a buffer and a constant of the forward pass."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(4), Block(4))
        self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.up_norm = nn.BatchNorm2d(4)
        self.dense = nn.Linear(4 * 16 * 16, 16)
        self.dense_norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(16, 10)
        self.register_buffer("mask", torch.triu(torch.ones(16, 16)))

    def forward(self, x):
        x = self.up_norm(self.up_norm(self.up(self.blocks(x)))) * self.mask
        x = x * torch.tensor([0.5] * 8 + [1.0] * 8)
        x = torch.relu(self.dense_norm(self.dense(x.flatten(1))))
        return self.head(self.drop(x))


TRAINING = {"dynamo": False, "training": torch.onnx.TrainingMode.TRAINING,
            "do_constant_folding": False}
# The name: is the module in its form for training, the exporter's options, is it advised, and a part
# of a note that must be there.
WAYS = {
    "optimize=False": (True, {"optimize": False}, True, None),
    "dynamo=False, TRAINING": (True, TRAINING, True, None),
    "as it comes": (False, {}, False, "folded 4 BatchNormalizations"),
    "train()": (True, {}, False, "BatchNormalization"),
    "dynamo=False": (False, {"dynamo": False}, False, "folded 2 BatchNormalizations"),
}


def notes_of(leat, path):
    own = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}  # not the peer's
    done = subprocess.run([leat, "graph", "check", path], capture_output=True, text=True, env=own)
    if done.returncode != 0:
        sys.exit(f"{path}: {done.stderr}")
    return re.findall(r"note: [^:]*: (.*)", done.stderr)


def check(name, leat, folder):
    training, options, advised, expected = WAYS[name]
    module = Net().train(training)
    path = os.path.join(folder, re.sub(r"\W+", "_", name) + ".onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (torch.randn(2, 4, 8, 8),), path, verbose=False, **options)
    notes = notes_of(leat, path)
    for note in notes:
        print(f"{name}: {note}")
    if not advised:
        return any(expected in note for note in notes)
    parameters = list(module.parameters())
    if "dynamo" in options:
        parameters.append(module.mask)
    trains = (f"trains {len(parameters)} variables of "
              f"{sum(p.numel() for p in parameters)} values in all")
    return len(notes) == 1 and notes[0].startswith(trains)


def main():
    leat = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/release/bin/leat")
    with tempfile.TemporaryDirectory() as folder:
        bad = [name for name in WAYS if not check(name, leat, folder)]
    for name in bad:
        print(f"{name}: not as expected")
    print(f"{len(WAYS) - len(bad)} of {len(WAYS)} ways are as expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

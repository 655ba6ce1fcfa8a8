#!/usr/bin/env python3
"""Trains small models in Leat, exports them as ONNX, and runs them in onnxruntime.

exported_models.py [LEAT]: the binary `leat`, or that of build/release. For each model: PyTorch
exports it, Leat trains it for a few steps, `leat checkpoint export --format onnx` writes it, and
onnxruntime's outputs are compared with those of `leat predict`. The files must pass onnx.checker
with full checks. Then Leat trains the exported file on. Exits 1 if an output differs by more than
1e-4, or anything else fails. Needs torch, onnx, onnxscript and onnxruntime.
"""
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LEAT = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/release/bin/leat")
BOUND = 1e-4
ROWS, BATCH, CLASSES = 64, 16, 5


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.norm2 = nn.BatchNorm2d(16)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = torch.relu(self.norm1(self.conv1(x)))
        x = nn.functional.hardswish(self.norm2(self.conv2(x)))
        return self.head(self.drop(x.mean((2, 3))))


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(20, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, CLASSES))

    def forward(self, x):
        return self.layers(x)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, 16)
        self.position = nn.Parameter(0.1 * torch.randn(10, 16))
        self.block = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.head(self.norm(self.block(self.embed(x) + self.position)).mean(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 12, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(24, 8, batch_first=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        x, _ = self.lstm(x)
        x, _ = self.gru(x)
        return self.head(x[:, -1])


TEXT = """<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
layers (float[N,1,8,8] image) => (float[N,5] logits) {
  c = leat.Conv2D <filters = 8, kernel = 3> (image)
  b = leat.BatchNorm (c)
  m = Mish (b)
  f = Flatten (m)
  d = leat.Dropout <rate = 0.25> (f)
  logits = leat.Dense <units = 5> (d)
}
"""
# The name, the module (none: the text form), the shape of a row, and the opsets to ask for.
MODELS = [
    ("cnn", Convolutional, (1, 12, 12), (None, 18)),
    ("mlp", Dense, (20,), (None, 20)),
    ("transformer", Transformer, (10, 6), (None, 18)),
    ("lstm", Recurrent, (7, 6), (None, 18)),
    ("layers", None, (1, 8, 8), (None, 13)),
]


def leat(*arguments, cwd):
    run = subprocess.run([LEAT, *arguments], cwd=cwd, capture_output=True, text=True, timeout=600)
    if run.returncode != 0:
        raise RuntimeError(f"leat {' '.join(arguments)}: {run.stdout[-800:]}{run.stderr[-2000:]}")
    return run.stdout + run.stderr


def write_model(name, module, row, folder):
    if module is None:
        with open(f"{folder}/{name}.onnxtxt", "w") as file:
            file.write(TEXT)
        return f"{name}.onnxtxt"
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module().train(), (torch.randn(2, *row),), f"{folder}/{name}.onnx",
                          dynamic_shapes=({0: "batch"},), optimize=False, verbose=False)
    return f"{name}.onnx"


def job(name, graph):
    return f"""version: 1
name: {name}
model: {{graph: {graph}}}
data:
  root: .
  train: {{format: npy, features: {name}-x.npy, labels: {name}-y.npy}}
loss: cross_entropy
optimizer: {{name: adam, learning_rate: 0.01}}
global_batch_size: {BATCH}
steps: 12
"""


def check(name, module, row, opsets, folder):
    random = np.random.default_rng(1)
    x = random.standard_normal((ROWS, *row)).astype(np.float32)
    np.save(f"{folder}/{name}-x.npy", x)
    np.save(f"{folder}/{name}-y.npy", random.integers(0, CLASSES, ROWS))
    graph = write_model(name, module, row, folder)
    for file, of in ((f"{name}.yaml", graph), (f"{name}-on.yaml", f"{name}-out.onnx")):
        with open(f"{folder}/{file}", "w") as text:
            text.write(job(file[:-5], of).replace(f"{file[:-5]}-x", f"{name}-x")
                       .replace(f"{file[:-5]}-y", f"{name}-y"))
    leat("train", f"{name}.yaml", cwd=folder)
    leat("predict", f"leat-runs/{name}", "--input", f"{name}-x.npy", "--output", f"{name}-p.npy",
         cwd=folder)
    expected = np.load(f"{folder}/{name}-p.npy")
    worst, versions = 0.0, []
    for opset in opsets:
        out = f"{folder}/{name}-out.onnx"
        leat("checkpoint", "export", f"leat-runs/{name}", "--format", "onnx", "-o", out,
             *(("--opset", str(opset)) if opset else ()), cwd=folder)
        model = onnx.load(out)
        onnx.checker.check_model(model, full_check=True)
        versions.append(model.opset_import[0].version)
        session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
        for rows in (1, ROWS):
            (y,) = session.run(None, {session.get_inputs()[0].name: x[:rows]})
            worst = max(worst, float(np.abs(y - expected[:rows]).max()))
    leat("train", f"{name}-on.yaml", cwd=folder)
    return worst, versions


def main():
    failed = 0
    for name, module, row, opsets in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                worst, versions = check(name, module, row, opsets, folder)
            except Exception as error:  # every model is tried
                print(f"{name:12} FAILED: {error}")
                failed += 1
                continue
        good = worst <= BOUND
        failed += not good
        print(f"{name:12} {'ok' if good else 'FAILED'}: outputs differ by {worst:.2e} at most, "
              f"opsets {versions}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

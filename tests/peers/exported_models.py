#!/usr/bin/env python3
"""Trains small models in Leat, exports them as ONNX, and runs them in onnxruntime.

exported_models.py [LEAT] [--zoo [NAME ...]]: the binary `leat`, or that of build/release. For each
model: PyTorch exports it, Leat trains it for a few steps, `leat checkpoint export --format onnx`
writes it, and onnxruntime's outputs are compared with those of `leat predict`. The files must pass
onnx.checker with full checks. Then Leat trains the exported file on. Exits 1 if an output differs
by more than 1e-4, or anything else fails. Needs torch, onnx, onnxscript and onnxruntime.

--zoo takes models of model_zoo.py in place of the small ones here, in PyTorch's training form, such
as torchvision/resnet18; without names those of transformers and a few of images. Their outputs may
differ by 1e-4 of the largest one, if that is above 1. Needs timm, torchvision and transformers, too.
"""
import argparse
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
LEAT = os.path.join(ROOT, "build/release/bin/leat")
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
    return worst, 1.0, versions


def zoo_names(names):
    from zoo_models import TRANSFORMERS
    images = ["torchvision/resnet18", "torchvision/mobilenet_v3_small", "torchvision/lraspp_mobilenet_v3_large",
              "timm/vit_tiny_patch16_224", "timm/convnext_atto", "parts/lstm", "parts/gru"]
    return names or images + ["transformers/" + name for name in TRANSFORMERS]


def check_of_zoo(name, folder):
    """(the largest difference, the largest output, [opset])"""
    import zoo_models
    case = zoo_models.build(name, 5)
    module, inputs = case.module.train(), {n: v.numpy() for n, v in case.inputs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(v[:4] for v in case.inputs.values()), f"{folder}/model.onnx",
                          input_names=list(inputs), optimize=False, verbose=False)
    columns = {**inputs, "labels": case.labels.numpy()}
    for column, value in columns.items():
        np.save(f"{folder}/{column}.npy", value)
    files = ", ".join(f"{n}: {n}.npy" for n in columns)
    with open(f"{folder}/job.yaml", "w") as text:
        text.write("version: 1\nname: zoo\nmodel: {graph: model.onnx}\nloss: cross_entropy\n"
                   f"data: {{root: ., shuffle: false, train: {{format: npy, files: {{{files}}}}}}}\n"
                   "optimizer: {name: sgd, learning_rate: 0.001}\nglobal_batch_size: 4\nsteps: 4\n")
    leat("train", "job.yaml", "--output", "run", cwd=folder)
    given = [x for n in inputs for x in ("--input", f"{n}={n}.npy")]
    leat("predict", "run", *given, "--output", "expected.npy", cwd=folder)
    expected = np.load(f"{folder}/expected.npy")
    leat("checkpoint", "export", "run", "--format", "onnx", "-o", f"{folder}/out.onnx", cwd=folder)
    model = onnx.load(f"{folder}/out.onnx")
    onnx.checker.check_model(f"{folder}/out.onnx", full_check=True)
    session = onnxruntime.InferenceSession(f"{folder}/out.onnx", providers=["CPUExecutionProvider"])
    worst = 0.0
    rows = len(expected)
    for first in range(0, rows, 4):
        y = session.run(None, {n: v[first:first + 4] for n, v in inputs.items()})[0]
        worst = max(worst, float(np.abs(y - expected[first:first + 4]).max()))
    return worst, float(np.abs(expected).max()), [model.opset_import[0].version]


def main():
    global LEAT
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("leat", nargs="?", default=LEAT)
    parser.add_argument("--zoo", nargs="*", metavar="NAME")
    args = parser.parse_args()
    LEAT = os.path.abspath(args.leat)
    names = [model[0] for model in MODELS] if args.zoo is None else zoo_names(args.zoo)
    failed = 0
    for i, name in enumerate(names):
        with tempfile.TemporaryDirectory() as folder:
            try:
                worst, largest, versions = check(*MODELS[i], folder) if args.zoo is None else check_of_zoo(name, folder)
            except Exception as error:  # every model is tried
                print(f"{name:12} FAILED: {error}", flush=True)
                failed += 1
                continue
        good = worst <= BOUND * max(1.0, largest)
        failed += not good
        print(f"{name:12} {'ok' if good else 'FAILED'}: outputs differ by {worst:.2e} at most, the largest is "
              f"{largest:.2g}, opsets {versions}", flush=True)
    print(f"{len(names) - failed} of {len(names)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Exports models of Keras, TensorFlow, JAX and scikit-learn, trains them in Leat, and compares the losses.

    other_exporters.py keras|layers|functions|jax|sklearn [LEAT] [--only NAME ...] [--steps 3] [--json FILE]

`keras` has the applications of Keras, `layers` small models of its layers, `functions` functions of
TensorFlow with variables: they need tensorflow and tf2onnx. `jax` needs jax, flax and jax2onnx, `sklearn`
needs scikit-learn and skl2onnx. Every model has random weights, and learns 8 random records in steps of
4 by SGD. For each the script prints the relative difference of each step's loss from the framework's own
with the same weights and records, or the first error of the export, of the import or of the training.
The exit code is 1 if a model that was exported does not train.
"""
import argparse
import fnmatch
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy as np

from side_by_side import BINARIES, own_environment

GROUPS = {"keras": "other_models_tensorflow", "layers": "other_models_tensorflow",
          "functions": "other_models_tensorflow", "jax": "other_models_jax", "sklearn": "other_models_sklearn"}
RATE = 0.01


def write_job(case, folder, steps):
    """`case` is what the builders return: inputs, labels, and further keys of `loss`."""
    for name, values in {**case["inputs"], "labels": case["labels"]}.items():
        np.save(os.path.join(folder, f"{name}.npy"), values)
    columns = ", ".join(f"{name}: {name}.npy" for name in [*case["inputs"], "labels"])
    loss = "mse" if case["labels"].dtype.kind == "f" else "cross_entropy"
    path = os.path.join(folder, "job.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""version: 1
name: other
model: {{graph: model.onnx}}
data: {{root: ., shuffle: false, train: {{format: npy, files: {{{columns}}}}}}}
loss: {{name: {loss}{case.get("loss", "")}}}
optimizer: {{name: sgd, learning_rate: {RATE}}}
global_batch_size: 4
steps: {steps}
""")
    return path


def train(leat, job, output):
    done = subprocess.run([leat, "train", job, "--threads", "1", "--output", output], env=own_environment(),
                          capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        raise RuntimeError((errors or [done.stderr[-300:]])[0])
    with open(os.path.join(output, "metrics.jsonl"), encoding="utf-8") as file:
        return [float(row["loss"]) for row in map(json.loads, file) if "epoch" not in row]


def first_line(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def measure(name, builder, args):
    result = {"model": name, "stage": "export"}
    with tempfile.TemporaryDirectory() as folder:
        try:
            case = builder(os.path.join(folder, "model.onnx"), args.steps, RATE)
            result["stage"] = "train"
            losses = train(args.leat, write_job(case, folder, args.steps), os.path.join(folder, "run"))
            result["losses"], result["reference"] = losses, [float(loss) for loss in case["losses"]]
            pairs = zip(losses, result["reference"], strict=True)
            result["difference"] = [abs(a - b) / abs(b) for a, b in pairs]
            result["stage"] = "done" if all(map(math.isfinite, losses)) else "train"
        except Exception as error:
            result["error"] = first_line(error)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("leat", nargs="?", default=os.path.join(BINARIES, "leat"))
    parser.add_argument("--only", nargs="*", default=["*"])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--json")
    args = parser.parse_args()
    builders = importlib.import_module(GROUPS[args.group]).GROUPS[args.group]
    results = []
    for name, builder in builders.items():
        if not any(fnmatch.fnmatch(name, pattern) for pattern in args.only):
            continue
        result = measure(name, builder, args)
        results.append(result)
        shown = " ".join(f"{d:.1e}" for d in result["difference"]) if result["stage"] == "done" else (
            f"{result['stage']}: {result.get('error', 'the loss is not finite')}")
        print(f"{name:28} {shown}", flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    exported = [r for r in results if r["stage"] != "export"]
    trained = sum(r["stage"] == "done" for r in exported)
    print(f"{trained} of {len(exported)} train; the exporter refuses {len(results) - len(exported)}")
    return int(trained < len(exported))


if __name__ == "__main__":
    sys.exit(main())

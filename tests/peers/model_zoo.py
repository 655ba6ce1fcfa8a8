#!/usr/bin/env python3
"""Exports models of timm, torchvision and transformers, trains them in Leat, and compares the losses.

    model_zoo.py [LEAT] [--seed 18] [--timm 100] [--form default|dynamic|training] [--only NAME ...]
                 [--steps 2] [--batch 4] [--precision float32] [--gradients] [--cache FOLDER] [--json FILE]

Every model has random weights, and learns random records, so that nothing is downloaded. `--timm`
models are drawn by the seed from timm's list, among those with at most --parameters parameters;
torchvision's classification and segmentation models within that limit and the smallest usable
configuration of each transformer follow. --form is how torch.onnx.export() is called: `default` as
it comes, in evaluation mode; `dynamic` with the batch as a symbol, too; `training` as Leat advises,
model.train() with optimize=False. Dropout and stochastic depth are off in all of them.

For each model the script prints one line: the relative difference of each step's loss from
PyTorch's with the same weights and records, then that of the evaluation's loss after them; or the
first error of the export, of the import or of the training. A difference in the default form is
none of Leat's if the exporter folded normalizations into weights: they train apart from PyTorch's
then, and Leat's note tells it. --precision float64 exports, trains and compares in double precision.

--gradients compares the gradients of one float32 step with PyTorch's of a float64 step, over all
parameters that the file kept: the distance, in units of the distance of PyTorch's own float32
gradients.

--cache keeps what was exported and what PyTorch computed, so that the next call only runs Leat.
Needs torch, timm, torchvision, transformers, onnx and onnxscript. The exit code is 0 if at least
85 % of the models train.
"""
import argparse
import copy
import fnmatch
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import torch
from torch.nn import functional as F

from side_by_side import BINARIES, own_environment
from zoo_models import OTHERS, PARTS, RECORDS, TRANSFORMERS, Logits, build, timm_names, torchvision_names


def export(case, args, path):
    form, precision = args.form, getattr(torch, args.precision)
    case.module = case.module.to(precision)
    module = case.module.train(form == "training")
    options = {"optimize": False} if form == "training" else {}
    if form == "dynamic":
        options["dynamic_shapes"] = tuple({0: torch.export.Dim.DYNAMIC} for _ in case.inputs)
        if isinstance(module, Logits):
            options["dynamic_shapes"] = (options["dynamic_shapes"],)
    examples = tuple(v[:args.batch].to(precision) if v.is_floating_point() else v[:args.batch]
                     for v in case.inputs.values())
    kept = copy.deepcopy(module.state_dict())  # the trace of a BatchNorm moves its statistics
    torch.onnx.export(module, examples, path, input_names=list(case.inputs), verbose=False, **options)
    module.load_state_dict(kept)


def loss_of(module, case, rows, precision):
    inputs = [v[rows].to(precision) if v.is_floating_point() else v[rows] for v in case.inputs.values()]
    scores = module(*inputs)
    if scores.dim() == 3:  # [N,T,C]
        scores = scores.transpose(1, 2)
    return F.cross_entropy(scores, case.labels[rows])


def reference(case, args):
    """PyTorch's losses of the steps, and that of an evaluation after them."""
    precision = getattr(torch, args.precision)
    module = copy.deepcopy(case.module).to(precision)
    optimizer = torch.optim.SGD(module.parameters(), lr=args.rate)
    losses = []
    for step in range(args.steps):
        rows = [(step * args.batch + i) % RECORDS for i in range(args.batch)]
        loss = loss_of(module, case, rows, precision)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        losses.append(loss_of(module.eval(), case, range(RECORDS), precision).item())
    return losses


def gradients(case, args, precision):
    """PyTorch's gradients of the first step, by the parameter's name."""
    module = copy.deepcopy(case.module).to(precision)
    loss_of(module, case, range(args.batch), precision).backward()
    return {n: p.grad.numpy() for n, p in module.named_parameters() if p.grad is not None}


class Diverged(Exception):
    """The loss became NaN, which counts as trained if PyTorch's does, too."""


def run_leat(arguments, timeout):
    done = subprocess.run(arguments, env=own_environment(), capture_output=True, text=True, timeout=timeout,
                          check=False)
    if "is NaN" in done.stderr:
        raise Diverged(" ".join(done.stderr.split())[-200:])
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        raise RuntimeError((errors or [done.stderr[-300:] or f"exit code {done.returncode}"])[0])
    return done.stderr


def train(args, case, output):
    """Runs a job in the folder `case`; returns whether the exporter folded normalizations. Raises
    RuntimeError with Leat's first error."""
    columns = ", ".join(f"{n[:-4]}: {n}" for n in sorted(os.listdir(case)) if n.endswith(".npy"))
    data = f"{{format: npy, files: {{{columns}}}}}"
    job = f"""version: 1
name: zoo
model: {{graph: model.onnx}}
data: {{root: ., shuffle: false, train: {data}{"" if args.gradients else ", validation: " + data}}}
loss: cross_entropy
optimizer: {{name: sgd, learning_rate: {args.rate}{", momentum: 0.9" if args.gradients else ""}}}
global_batch_size: {args.batch}
steps: {1 if args.gradients else args.steps}
precision: {args.precision}
"""
    path = os.path.join(case, "job.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(job)
    notes = run_leat([args.leat, "train", path, "--threads", str(args.threads), "--output", output], args.timeout)
    return "folded" in notes


def losses_of(output, args):
    """The losses of the steps and of the evaluation; NaN for an evaluation that is not there."""
    with open(os.path.join(output, "metrics.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    steps = [float(row["loss"]) for row in rows if "epoch" not in row][:args.steps]
    evaluations = [float(row["val_loss"]) for row in rows if "val_loss" in row]
    return steps + (evaluations[-1:] or [math.nan])


def compare_losses(result, args, case, output):
    try:
        result["folded"] = train(args, case, output)
        result["losses"] = losses_of(output, args)
    except Diverged:
        result["losses"] = [math.nan] * (args.steps + 1)
    result["stage"] = "compare"
    # A run ends with its first NaN.
    if any(map(math.isnan, result["losses"])) and all(map(math.isfinite, result["reference"])):
        raise RuntimeError("the loss is NaN, and PyTorch's is not")
    result["difference"] = [abs(a - b) / abs(b) for a, b in zip(result["losses"], result["reference"])]


def compare_gradients(result, args, case, output):
    """With a momentum that begins at 0, its state after a step is the gradient."""
    result["folded"] = train(args, case, output)
    result["stage"] = "compare"
    file = os.path.join(output, "all.npz")
    run_leat([args.leat, "checkpoint", "export", output, "--all", "-o", file], args.timeout)
    states = np.load(file)
    own = {n[len("optimizer/"):-len("/momentum")]: states[n] for n in states.files if n.endswith("/momentum")}
    single, double = (np.load(os.path.join(case, f"gradients_{p}.npz")) for p in ("float32", "float64"))
    names = [n for n in double.files if n in own and own[n].shape == double[n].shape]
    if not names:
        raise RuntimeError("the file has no parameter of the module under its name")
    leat = sum(np.sum((own[n] - double[n]) ** 2) for n in names)
    torch_own = sum(np.sum((single[n].astype(np.float64) - double[n]) ** 2) for n in names)
    result["parameters_compared"] = [len(names), len(double.files)]
    result["difference"] = [math.sqrt(leat / torch_own) if torch_own > 0 else (math.inf if leat > 0 else 0.0)]


def prepare(name, args, case_folder):
    """Exports a model, and computes PyTorch's results, in a folder; or reads what was done before."""
    path = os.path.join(case_folder, "case.json")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    shutil.rmtree(case_folder, ignore_errors=True)
    os.makedirs(case_folder)
    result = {"model": name, "form": args.form}
    try:
        result["stage"] = "build"
        case = build(name, args.seed)
        result["parameters"] = sum(p.numel() for p in case.module.parameters())
        result["stage"] = "export"
        export(case, args, os.path.join(case_folder, "model.onnx"))
        for column, value in {**case.inputs, "labels": case.labels}.items():
            np.save(os.path.join(case_folder, column + ".npy"), value.numpy())
        result["stage"] = "reference"
        # Leat trains with the statistics of the batch, also where the file has those of an inference.
        nodes = onnx.load(os.path.join(case_folder, "model.onnx"), load_external_data=False).graph.node
        case.module.train(any(node.op_type == "BatchNormalization" for node in nodes))
        try:
            if args.gradients:
                for precision in ("float32", "float64"):
                    np.savez(os.path.join(case_folder, f"gradients_{precision}.npz"),
                             **gradients(case, args, getattr(torch, precision)))
            else:
                result["reference"] = reference(case, args)
        except Exception as error:  # PyTorch cannot train some modules in evaluation mode
            result["reference_error"] = first_line(error)
        result["stage"] = "train"
    except Exception as error:
        result["error"] = first_line(error)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file)
    return result


def first_line(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def measure(name, args):
    """{model, stage: the last one that was reached, ...}."""
    folder = tempfile.mkdtemp(dir=args.folder)
    kind = "gradients" if args.gradients else f"{args.precision}-{args.steps}-{args.rate}"
    case = os.path.join(args.cache or folder, f"{name.replace('/', '_')}-{args.form}-{args.seed}-{args.batch}-{kind}")
    result = prepare(name, args, case)
    if "error" in result:
        return result
    try:
        if "reference_error" in result:
            train(args, case, os.path.join(folder, "run"))
            result["stage"] = "compare"
            raise RuntimeError("PyTorch: " + result["reference_error"])
        (compare_gradients if args.gradients else compare_losses)(result, args, case, os.path.join(folder, "run"))
        result["stage"] = "done"
    except Exception as error:
        result["error"] = first_line(error)
    shutil.rmtree(folder)
    return result


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("leat", nargs="?", default=os.path.join(BINARIES, "leat"))
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--timm", type=int, default=100)
    parser.add_argument("--parameters", type=float, default=60e6)
    parser.add_argument("--form", choices=("default", "dynamic", "training"), default="default")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--precision", choices=("float32", "float64"), default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--others", action="store_true", help="more transformers")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--folder")
    parser.add_argument("--cache")
    parser.add_argument("--json")
    return parser.parse_args()


def drawn_names(args, patterns):
    """Only those of the sources that patterns begin with: some take long to draw."""
    sources = {pattern.split("/")[0] for pattern in patterns}
    drawn = ["parts/" + n for n in PARTS] if "parts" in sources else []
    if "transformers" in sources:
        drawn += ["transformers/" + n for n in TRANSFORMERS]
        drawn += ["transformers/" + n for n in OTHERS] if args.others else []
    if "torchvision" in sources:
        drawn += torchvision_names(args)
    return drawn + (timm_names(args) if "timm" in sources else [])


def main():
    args = parse_arguments()
    warnings.simplefilter("ignore")
    names = args.only
    if not names or any("*" in name for name in names):
        drawn = drawn_names(args, names or ["timm/", "torchvision/", "transformers/"])
        names = [n for n in drawn if not names or any(fnmatch.fnmatchcase(n, pattern) for pattern in names)]
    print(f"{len(names)} models, seed {args.seed}, form {args.form}", flush=True)
    results = []
    for name in names:
        result = measure(name, args)
        results.append(result)
        text = result.get("error") or " ".join(f"{d:.1e}" for d in result["difference"])
        if result.get("folded"):
            text += " (the exporter folded normalizations)"
        print(f"{name}: {result['stage']}: {text}", flush=True)
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
    # PyTorch cannot train some modules twice in evaluation mode: they count, too.
    trained = sum(result["stage"] in ("compare", "done") and "is NaN" not in result.get("error", "")
                  for result in results)
    print(f"{trained} of {len(results)} models train")
    return 0 if trained >= 0.85 * len(results) else 1


if __name__ == "__main__":
    sys.exit(main())

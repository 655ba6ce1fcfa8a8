#!/usr/bin/env python3
"""Trains the recipes of configs/jobs whole, with leat and with PyTorch, and compares results and times.

Both begin with the same weights (those of leat, which trains one step with a rate of nothing), and take the
same rows in the same order, with the rates that leat has written into its metrics. Only dropout, crops and flips
draw other numbers. PyTorch trains with the best of eager and compiled, of images with and without channels_last,
and, if leat trains in 16 bits, with and without autocast: each is tried for a few steps first. Its rows are in
memory as tensors before the time begins, and a batch of images is cropped at once; leat reads its files, computes
the accuracy of each step, too, and writes its checkpoints beside the steps; the time of evaluations counts on
neither side. Prints the accuracy of the validation after the last step, its loss, and the mean time of a step,
and the ratio of PyTorch's time to leat's: above 1, leat is faster.

With --steps both train only so many steps, which is enough for their times; the accuracy is then that of a
model that has hardly learnt.

With several seeds (--seeds) the table has means and the largest difference between two seeds of one
side, which says how much a difference of the two sides means.
"""
import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import yaml
from safetensors.numpy import load_file
from torch.nn import functional as F

import leat_job
from recipe_models import MODELS
from side_by_side import ROOT, cpu_model, pinned, usable_cores

JOBS = os.path.join(ROOT, "configs", "jobs")


def rows_of(args, job, which, root):
    """The inputs and labels of a set of the data as tensors."""
    entry = job["data"][which]
    if entry["format"] == "image_folder":
        source = f"{{format: image_folder, files: {entry['files']}, size: {entry['size']}}}"
        with tempfile.TemporaryDirectory(prefix="leat-peers-") as folder:
            path = os.path.join(folder, "rows.npz")
            subprocess.run([args.leat, "data", "convert", source, path], cwd=root, check=True, capture_output=True)
            rows = np.load(path)
            return torch.from_numpy(rows["image"]).float(), torch.from_numpy(rows["labels"])
    if entry["format"] == "idx":
        folder = job["data"]["root"]
        images, labels = (leat_job.read_idx(os.path.join(folder, entry[name])) for name in ("features", "labels"))
        return torch.from_numpy(images.copy()).float().mul(job["data"]["rescale"]), torch.from_numpy(labels.copy()).long()
    if entry["format"] == "npy":
        inputs, labels = (np.load(os.path.join(root, file)) for file in entry["files"].values())
        return torch.from_numpy(inputs).long(), torch.from_numpy(labels).long()
    text = np.fromfile(os.path.join(root, entry["files"]), np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(text, entry["window"])[::entry["stride"]]
    tokens = torch.from_numpy(windows.copy()).long()
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


class Transforms:
    """Transforms of a recipe's images, as a function of a batch: random crops and flips while it trains, then
    the normalization. Other inputs stay as they are."""

    def __init__(self, job):
        entry = job["data"]["train"]
        self.images = entry["format"] == "image_folder"
        if self.images:
            self.padding, self.flip = entry["padding"], entry["flip"]
            self.rescale = job["data"]["rescale"]
            normalize = job["data"]["transforms"][0]["normalize"]
            self.mean, self.std = (torch.tensor(normalize[name])[:, None, None] for name in ("mean", "std"))

    def __call__(self, x, training):
        if not self.images:
            return x
        if training:
            x = self.crops(x)
        return (x * self.rescale - self.mean) / self.std

    def crops(self, x):
        n, _, height, width = x.shape
        padded = F.pad(x, [self.padding] * 4)
        top, left = torch.randint(2 * self.padding + 1, (2, n))
        rows = (top[:, None] + torch.arange(height))[:, None, :, None]
        columns = left[:, None] + torch.arange(width)
        columns = torch.where(torch.rand(n, 1) < self.flip, columns.flip(1), columns)[:, None, None, :]
        return padded[torch.arange(n)[:, None, None, None], torch.arange(x.shape[1])[:, None, None], rows, columns]


def optimizer_of(job, parameters):
    options = job["optimizer"]
    if options["name"] == "sgd":
        return torch.optim.SGD(parameters, lr=1, momentum=options.get("momentum", 0), fused=True,
                               nesterov=options.get("nesterov", False), weight_decay=options.get("weight_decay", 0))
    betas = options.get("beta_1", 0.9), options.get("beta_2", 0.999)
    if options["name"] == "adamw":
        return torch.optim.AdamW(parameters, lr=1, betas=betas, weight_decay=options["weight_decay"], fused=True)
    return torch.optim.Adam(parameters, lr=1, betas=betas, fused=True)


def cross_entropy(scores, labels, **options):
    return F.cross_entropy(scores.float().flatten(0, -2), labels.flatten(), **options)


class Training:
    """One setting of PyTorch."""

    def __init__(self, recipe, job, weights, compiled, dtype, layout):
        torch.compiler.reset()
        self.net = MODELS[recipe]({name: torch.from_numpy(value.copy()) for name, value in weights.items()})
        self.net.to(memory_format=layout)
        self.layout, self.transforms = layout, Transforms(job)
        options = job["loss"] if isinstance(job["loss"], dict) else {}
        smoothing = options.get("label_smoothing", 0)
        self.optimizer = optimizer_of(job, self.net.parameters())
        self.autocast = lambda: torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16")

        def loss_of(x, y):
            with self.autocast():
                scores = self.net(x)
            return cross_entropy(scores, y, label_smoothing=smoothing)
        self.loss_of = torch.compile(loss_of) if compiled else loss_of

    def step(self, x, y, rate):
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(self.prepared(x, True), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def prepared(self, x, training):
        x = self.transforms(x, training)
        return x.to(memory_format=self.layout) if x.dim() == 4 else x

    def evaluate(self, inputs, labels):
        self.net.eval()
        right = loss = 0.0
        with torch.no_grad(), self.autocast():
            for x, y in zip(inputs.split(256), labels.split(256)):
                scores = self.net(self.prepared(x, False))
                right += (scores.argmax(-1) == y).float().mean().item() * len(x)
                loss += cross_entropy(scores, y).item() * len(x)
        return right / len(inputs), loss / len(inputs)


def torch_result(args, recipe, job, weights, rates, seed, root):
    train, validation = rows_of(args, job, "train", root), rows_of(args, job, "validation", root)
    order = leat_job.records(len(train[1]), seed, True, job["global_batch_size"], len(rates))
    batches = [(train[0][rows], train[1][rows]) for rows in order[:8]]
    tried = {}
    layouts = [torch.contiguous_format] + [torch.channels_last] * (train[0].dim() == 4 and train[0].shape[1] > 1)
    for setting in itertools.product((False, True), dict.fromkeys(["float32", args.precision]), layouts):
        torch.manual_seed(seed)
        training = Training(recipe, job, weights, *setting)
        times = []
        for x, y in batches * (3 if len(layouts) == 1 else 1):
            begin = time.perf_counter()
            training.step(x, y, rates[0])
            times.append(time.perf_counter() - begin)
        tried[setting] = statistics.median(times[4:])
    best = min(tried, key=tried.get)
    print(f"  PyTorch: {'; '.join(f'{name_of(*k)} {v * 1e3:.2f} ms' for k, v in tried.items())}", flush=True)
    torch.manual_seed(seed)
    training = Training(recipe, job, weights, *best)
    training.step(*batches[0], 0.0)  # compiles
    training = restart(training, recipe, job, weights)
    begin = time.perf_counter()
    for rows, rate in zip(order, rates):
        training.step(train[0][rows], train[1][rows], rate)
    seconds = time.perf_counter() - begin
    return (*training.evaluate(*validation), seconds / len(rates) * 1e3)


def restart(training, recipe, job, weights):
    """The same compiled step with the first weights and a new optimizer."""
    first = MODELS[recipe]({name: torch.from_numpy(value.copy()) for name, value in weights.items()}).state_dict()
    training.net.load_state_dict(first)
    training.optimizer = optimizer_of(job, training.net.parameters())
    return training


def name_of(compiled, dtype, layout):
    return f"{'compile' if compiled else 'eager'} {dtype}{' channels_last' if layout == torch.channels_last else ''}"


def leat_result(args, path, folder, seed, root, prefix):
    """(accuracy, loss, ms a step, first weights, rates) of the recipe."""
    def train(name, *settings):
        output = os.path.join(folder, name)
        options = [f"seed={seed}", f"precision={args.precision}", f"shards={args.shards}", *settings]
        if args.steps and not any(setting.startswith("steps=") for setting in settings):
            options.append(f"steps={args.steps}")
        if root:
            options.append(f"data.root={root}")
        command = [x for option in options for x in ("--set", option)]
        events = leat_job.train(args.leat, folder, path, threads=args.threads, prefix=prefix, output=output, more=command)
        return output, events
    first, _ = train("first", "steps=1", "optimizer.learning_rate=1e-30")
    output, events = train("whole")
    rows = leat_job.metrics(output)
    rates = [row["learning_rate"] for row in rows if "epoch" not in row]
    last = [row for row in rows if "val_accuracy" in row][-1]
    batch = yaml.safe_load(open(path, encoding="utf-8"))["global_batch_size"]
    ms = batch * 1e3 / events[-1]["samples_per_second"]
    return last["val_accuracy"], last["val_loss"], ms, load_file(os.path.join(first, "weights.safetensors")), rates


def compare(args, recipe, seed, prefix):
    path = os.path.join(JOBS, recipe + ".yaml")
    with open(path, encoding="utf-8") as f:
        job = yaml.safe_load(f)
    own = os.path.isabs(job["data"]["root"])
    root = "" if own else os.path.join(args.data, os.path.basename(job["data"]["root"]))
    with tempfile.TemporaryDirectory(prefix="leat-peers-") as folder:
        *ours, weights, rates = leat_result(args, path, folder, seed, root, prefix)
    print(f"  leat, seed {seed}: accuracy {ours[0]:.4f}, loss {ours[1]:.4f}, {ours[2]:.2f} ms/step", flush=True)
    theirs = torch_result(args, recipe, job, weights, rates, seed, root)
    print(f"  PyTorch, seed {seed}: accuracy {theirs[0]:.4f}, loss {theirs[1]:.4f}, {theirs[2]:.2f} ms/step", flush=True)
    return ours, theirs


def width_of(values):
    return max(values) - min(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leat", default=leat_job.default_binary(), help="the binary (default: build/release/bin/leat)")
    parser.add_argument("--recipes", default=",".join(MODELS))
    parser.add_argument("--data", default="leat-data", help="the folder of deploy/recipe-data (default: leat-data)")
    parser.add_argument("--precision", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cores", default="", help="which to pin to (default: the first ones allowed)")
    parser.add_argument("--seeds", default="11")
    parser.add_argument("--steps", type=int, default=0, help="of each training (default: the recipe whole)")
    parser.add_argument("--shards", type=int, default=1, help="of leat's job: the recipes have 4, so that up to 4 "
                        "workers give the same weights (default: 1, as PyTorch's process has one gradient)")
    args = parser.parse_args()
    args.data = os.path.abspath(args.data)
    cores = usable_cores(args.cores)[:args.threads]
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(args.threads)
    lines = []
    for recipe in args.recipes.split(","):
        print(f"{recipe}, {args.precision}, {args.threads} thread{'s' if args.threads > 1 else ''}", flush=True)
        pairs = [compare(args, recipe, int(seed), pinned(cores)) for seed in args.seeds.split(",")]
        sides = [[statistics.mean(column) for column in zip(*side)] for side in zip(*pairs)]
        spread = "-" if len(pairs) == 1 else f"{100 * max(map(width_of, ([p[side][0] for p in pairs] for side in (0, 1)))):.2f}"
        (ours, theirs) = sides
        lines.append(f"| {recipe} | {args.precision} | {args.threads} | {100 * ours[0]:.2f} | {100 * theirs[0]:.2f} | "
                     f"{100 * (ours[0] - theirs[0]):+.2f} | {spread} | {ours[2]:.2f} | {theirs[2]:.2f} | "
                     f"{theirs[2] / ours[2]:.2f} |")
    print(f"\n{cpu_model()}, seeds {args.seeds}\n")
    print("| recipe | precision | threads | accuracy | PyTorch's | difference | between seeds | ms/step | PyTorch's | "
          "PyTorch / Leat |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())

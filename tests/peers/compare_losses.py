#!/usr/bin/env python3
"""Trains the same models with leat and with PyTorch, and compares the losses of every step.

Same initial weights (written here, given to leat as model.weights), same records in the same order
(Fashion-MNIST, shuffled by leat's keyed permutation, which leat_job.py computes again), one shard. In
float64 the losses of 50 steps must be equal within 1e-9, in float32 those of 10 steps within 1e-4,
relative. Exits 1 and names the cases that are not.

The bar is against PyTorch as it comes, and there are no excuses. For whoever looks for the cause of a
failure in float32, three more columns: the differences from PyTorch without oneDNN and from PyTorch in
float64, and of PyTorch as it comes from its own float64. A difference of 1e-4 that comes at once, while all
before were near 1e-7, is a unit whose value before its ReLU is zero but for rounding: its gradient for that
sample is there or not. With the seed 11, cnn-bn and AdamW it is unit 80 of d1 in step 6 (sample 89 of the
batch: -1.4e-6 in float64, +5e-7 in PyTorch with oneDNN, -3e-6 without; 3.0 is a usual size).
"""
import argparse
import functools
import os
import sys
import tempfile

import torch
from safetensors.numpy import save_file
from torch.nn import functional as F

import leat_job
import torch_models

BARS = {"float64": (50, 1e-9), "float32": (10, 1e-4)}


def torch_losses(model, weights, optimizer_name, data, order, dtype, onednn=True):
    """The losses of PyTorch from these weights (a state_dict)."""
    net = torch_models.build(model)
    net.load_state_dict(weights)
    net = net.to(dtype)
    optimizer = torch_models.optimizer(optimizer_name, net.parameters())
    out = []
    with torch.backends.mkldnn.flags(enabled=onednn):
        for rows in order:
            x = torch.from_numpy(data[0][rows]).to(dtype).mul(leat_job.RESCALE).unsqueeze(1)
            loss = F.cross_entropy(net(x), torch.from_numpy(data[1][rows]).long())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            out.append(loss.item())
    return out


def relative(losses, reference):
    return [abs(a - b) / abs(b) for a, b in zip(losses, reference)]


def compare(args, model, optimizer, precision, data, folder):
    """{reference: relative differences of leat's losses from it, by step; own: PyTorch's from float64}."""
    steps = BARS[precision][0]
    dtype = getattr(torch, precision)
    torch.manual_seed(args.seed)
    net = torch_models.build(model).to(dtype)
    initial = {name: value.clone() for name, value in net.state_dict().items()}
    weights = os.path.join(folder, "weights.safetensors")
    save_file(torch_models.leat_weights(model, net), weights)
    leat_job.run(args.leat, folder, model, optimizer, steps, seed=args.seed, precision=precision,
                 shuffle=not args.in_order, weights=weights, threads=args.threads)
    ours = leat_job.losses(folder)
    if len(ours) != steps:
        raise SystemExit(f"{model} {optimizer} {precision}: expected {steps} losses, leat wrote {len(ours)}")
    order = leat_job.records(len(data[1]), args.seed, not args.in_order, 128, steps)
    run = functools.partial(torch_losses, model, initial, optimizer, data, order)
    theirs = {"torch": run(dtype)}
    if precision == "float32":
        theirs["native"] = run(dtype, onednn=False)
        theirs["float64"] = run(torch.float64)
    if args.verbose:
        for step, (a, b) in enumerate(zip(ours, theirs["torch"]), 1):
            print(f"  step {step:3d}  leat {a!r}  torch {b!r}  {abs(a - b) / abs(b):.2e}")
    out = {name: relative(ours, losses) for name, losses in theirs.items()}
    if "float64" in theirs:
        out["own"] = relative(theirs["torch"], theirs["float64"])
    return out


def judge(name, precision, differences):
    """Prints the row of a case; whether it is good. A comparison with nan is not."""
    steps, bar = BARS[precision]
    worst = {reference: max(values) for reference, values in differences.items()}
    cells = [f"{worst[r]:10.1e}" if r in worst else f"{'':10s}" for r in ("torch", "native", "float64", "own")]
    good = worst["torch"] <= bar
    print(f"{name:26s} {steps:5d} {' '.join(cells)}  {bar:g}  {'ok' if good else 'FAILED'}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leat", default=leat_job.default_binary(), help="the binary (default: build/release/bin/leat)")
    parser.add_argument("--only", default="", help="cases whose name has this in it, e.g. cnn-bn")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--in-order", action="store_true", help="data.shuffle: false")
    parser.add_argument("--verbose", action="store_true", help="every step's two losses")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    data = leat_job.fashion_mnist()
    print(f"{'':26s} {'':5s} largest relative difference of leat from PyTorch ... {'PyTorch':>9s}")
    print(f"{'case':26s} {'steps':>5s} {'as it is':>10s} {'no oneDNN':>10s} {'float64':>10s} {'from f64':>10s}  bar")
    failed = []
    for model in leat_job.GRAPHS:
        for optimizer in leat_job.OPTIMIZERS:
            for precision in BARS:
                name = f"{model} {optimizer} {precision}"
                if args.only not in name:
                    continue
                with tempfile.TemporaryDirectory(prefix="leat-peers-") as folder:
                    differences = compare(args, model, optimizer, precision, data, folder)
                if not judge(name, precision, differences):
                    failed.append(name)
    if failed:
        print(f"{len(failed)} cases are beyond the bar: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Training throughput of `leat train --gpu` and of PyTorch on one NVIDIA GPU, side by side.

The models are those of throughput.py, and two of full size: resnet50 (torchvision's, 64 images of 224 by
224) and gpt2 (124 M parameters, 8 windows of 1024 tokens). SGD with momentum; PyTorch trains on one batch
that stays on the GPU, eager, as CUDA graphs of its own (`graphed`: forward, backward and optimizer in one,
with static inputs) and, with --compile, compiled; leat's time is the difference of two jobs, of n and of
3 n steps, from their `finished` events. Prints the medians of the rounds, which are interleaved, and the ratio of PyTorch's
time to leat's: above 1, leat is faster.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import leat_job
import torch_models
from side_by_side import own_environment

BATCHES = {**leat_job.BATCHES, "resnet50": 64, "gpt2": 8}
BATCHES_OF_EPOCH = {"resnet50": 16, "gpt2": 64}  # of 128 otherwise: an epoch of few steps is mostly its end


def data_job(folder, model, precision):
    """The path of a job on random records: of a graph of leat's own, or of an exported model."""
    batch, batches = BATCHES[model], BATCHES_OF_EPOCH.get(model, 128)
    if model not in leat_job.GRAPHS:
        return leat_job.exported_job(folder, model, "momentum", 1, precision=precision, batch=batch,
                                     batches=batches)
    inputs, labels = torch_models.records(model, batches * batch)
    os.makedirs(folder, exist_ok=True)
    np.save(os.path.join(folder, "image.npy"), inputs.numpy())
    np.save(os.path.join(folder, "labels.npy"), labels.numpy())
    return leat_job.write_job(folder, model, f"""
model: {{graph: {leat_job.GRAPHS[model]}}}
data: {{root: ., train: {{format: npy, files: {{image: image.npy, labels: labels.npy}}}}}}
optimizer: {leat_job.OPTIMIZERS["momentum"]}
global_batch_size: {batch}
steps: 1
precision: {precision}
""")


def leat_job_ms(args, folder, path, model, steps):
    """The time of all steps of a job together, its first ones included."""
    run = os.path.join(folder, f"run{steps}-{time.monotonic_ns()}")
    done = subprocess.run([args.leat, "train", path, "--gpu", "--workers", "1", "--threads", "4", "--json",
                           "--set", f"steps={steps}", "--output", run], env=args.environment,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"  leat: exit code {done.returncode}: {done.stderr[-600:]}", flush=True)
        return None
    event = json.loads(done.stdout.splitlines()[-1])
    return steps * BATCHES[model] * 1e3 / event["samples_per_second"]


def leat_ms(args, folder, path, model, steps):
    """The time of a step, without what the first ones take to load libraries and to record graphs."""
    short, long = (leat_job_ms(args, folder, path, model, n) for n in (steps, 3 * steps))
    return None if short is None or long is None else (long - short) / (2 * steps)


def torch_steps(args, model, precision):
    """{setting: step}."""
    import torch
    dtype = getattr(torch, precision)
    inputs, labels = (t.cuda() for t in torch_models.records(model, BATCHES[model]))
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.tf32
    pictures = inputs.dim() == 4 and model != "mlp"

    def make(compiled, graphed):
        torch.manual_seed(0)
        torch.compiler.reset()
        net, x = torch_models.build(model).cuda().train(), inputs
        if pictures:
            net, x = net.to(memory_format=torch.channels_last), inputs.contiguous(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, fused=True)

        def loss_of(x):
            with torch.autocast("cuda", dtype, enabled=dtype != torch.float32, cache_enabled=not graphed):
                scores = net(x)
            return torch_models.loss_of(scores.float(), labels)
        loss_fn = torch.compile(loss_of) if compiled else loss_of

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss_fn(x).backward()
            optimizer.step()
        if not graphed:
            return step
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(5):
                step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph, stream=stream):
            step()
        return graph.replay

    yield "eager", lambda: make(False, False)
    yield "graphed", lambda: make(False, True)
    if args.compile:
        yield "compiled", lambda: make(True, False)


def torch_ms(step, seconds):
    import torch
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        steps += 10
    return (time.perf_counter() - begin) / steps * 1e3


def case(args, model, precision):
    steps = {}
    for name, make in torch_steps(args, model, precision):
        try:
            steps[name] = make()
            torch_ms(steps[name], 0.1)
        except Exception as error:  # a setting that fails takes itself away, and no other
            print(f"  PyTorch {name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            steps.pop(name, None)
    times = {"leat": [], **{name: [] for name in steps}}
    with tempfile.TemporaryDirectory(prefix="leat-gpu-") as folder:
        path = data_job(folder, model, precision)
        first = leat_ms(args, folder, path, model, 20 if model in BATCHES_OF_EPOCH else 50)
        count = min(20000, max(20, int(args.seconds * 1e3 / (3 * first)))) if first else 0
        for _ in range(args.rounds):
            if count:
                times["leat"].append(leat_ms(args, folder, path, model, count))
            for name, step in steps.items():
                times[name].append(torch_ms(step, args.seconds))
    medians = {name: statistics.median(values) for name, values in times.items() if values and None not in values}
    for name, ms in medians.items():
        ratio = f", {ms / medians['leat']:.2f} times leat's" if "leat" in medians and name != "leat" else ""
        print(f"  {name:9s} {ms:9.4f} ms/step{ratio}", flush=True)
    print(json.dumps({"model": model, "precision": precision, "batch": BATCHES[model], "ms": medians}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leat", default=leat_job.default_binary())
    parser.add_argument("--library-path", default="", help="LD_LIBRARY_PATH of leat")
    parser.add_argument("--models", default="mlp,cnn,resnet18,gpt")
    parser.add_argument("--precisions", default="float32,bfloat16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="of training in a round")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--tf32", action="store_true", help="PyTorch may use TF32, which leat does not")
    args = parser.parse_args()
    args.environment = own_environment()
    if args.library_path:
        args.environment["LD_LIBRARY_PATH"] = args.library_path
    import torch
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name(0)}", flush=True)
    for model in args.models.split(","):
        for precision in args.precisions.split(","):
            print(f"{model}, {precision}", flush=True)
            case(args, model, precision)
    return 0


if __name__ == "__main__":
    sys.exit(main())

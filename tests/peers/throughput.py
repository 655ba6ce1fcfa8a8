#!/usr/bin/env python3
"""Training throughput of leat, PyTorch, TensorFlow and TensorFlow with XLA, side by side.

One process each, pinned to as many cores as it has threads; SGD with momentum. The CNN is
32c3-64c3-fc128, the MLP 784-512-512-10, both without dropout, with batches of 128. resnet18
(torchvision's, with a first layer for images of 32 by 32, batches of 32), gpt (4 blocks of width
256, 8 windows of 128 tokens) and all others are exported from PyTorch, and compared with PyTorch
alone. Rounds are interleaved: what disturbs the machine disturbs all of them. leat's time is that
of a whole job, on Fashion-MNIST or on random records, from its `finished` event; the peers train on
one batch that stays in memory, PyTorch with the best of eager and compiled, plain and
channels_last, and, if leat trains in 16 bits, with and without autocast. Prints medians over the
rounds and the ratio of the best peer's time to leat's: above 1, leat is faster.
"""
import argparse
import datetime
import os
import shutil
import statistics
import sys
import tempfile

import leat_job
from side_by_side import Peer, cpu_model, pinned, usable_cores, write_page

PEERS = {"torch": "PyTorch", "tensorflow": "TensorFlow", "xla": "TensorFlow+XLA"}
TRAINED_BY_ALL = ["mlp", "cnn"]


def peers_of(model, precision):
    return ["torch"] if model not in TRAINED_BY_ALL or precision != "float32" else list(PEERS)


def leat_ms(args, job, steps, threads, prefix):
    path, batch = job
    folder = os.path.dirname(path)
    output = os.path.join(folder, "run")
    shutil.rmtree(output, ignore_errors=True)
    events = leat_job.train(args.leat, folder, path, threads=threads, prefix=prefix, output=output,
                            more=["--set", f"steps={steps}"])
    return batch * 1e3 / events[-1]["samples_per_second"]


def case(args, model, threads, precision, cores):
    """{name: median ms} of one model, number of threads and precision."""
    prefix = pinned(cores[:threads])
    name, batch = leat_job.split(model)
    write = leat_job.fashion_job if model in TRAINED_BY_ALL else leat_job.exported_job
    with tempfile.TemporaryDirectory(prefix="leat-peers-") as folder:
        job = write(folder, name, "momentum", 1, precision=precision, batch=batch), batch
        return timed(args, model, job, threads, precision, prefix)


def timed(args, model, job, threads, precision, prefix):
    steps = max(10, int(args.seconds * 1e3 / leat_ms(args, job, 10, threads, prefix)))
    times = {name: [] for name in ["leat", *peers_of(model, precision)]}
    peers = []
    try:
        for name in peers_of(model, precision):  # one after the other, so that each picks its setting alone
            peers.append(Peer(name, "throughput_peer.py",
                              [name, model, threads, precision, "eager" if args.eager else "all"], prefix,
                              {"OMP_NUM_THREADS": str(threads)}))
            ready = peers[-1].read()
            print(f"  {PEERS[name]}: {ready['ready']} ({'; '.join(ready['tried'])})", flush=True)
        for _ in range(args.rounds):
            times["leat"].append(leat_ms(args, job, steps, threads, prefix))
            for peer in peers:
                times[peer.name].append(peer.measure(args.seconds)["ms"])
    finally:
        for peer in peers:
            peer.__exit__()
    for name, values in times.items():
        print(f"  {PEERS.get(name, name):15s} {statistics.median(values):8.2f} ms/step   "
              f"rounds {' '.join(f'{v:.2f}' for v in values)}", flush=True)
    return {name: statistics.median(values) for name, values in times.items()}


def table(rows):
    lines = ["| model | precision | threads | Leat | " + " | ".join(PEERS.values()) + " | best peer / Leat |",
             "| --- | --- | --- | --- | " + "--- | " * len(PEERS) + "--- |"]
    for (model, precision, threads), ms in rows.items():
        best = min(ms[p] for p in PEERS if p in ms)
        cells = [f"{ms[name]:.2f}" if name in ms else "" for name in ["leat", *PEERS]]
        lines.append(f"| {model} | {precision} | {threads} | {' | '.join(cells)} | {best / ms['leat']:.2f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leat", default=leat_job.default_binary(), help="the binary (default: build/release/bin/leat)")
    parser.add_argument("--models", default=",".join(leat_job.BATCHES),
                        help="also those of torch_models.OTHERS with a batch: vgg11:8 (default: %(default)s)")
    parser.add_argument("--precisions", default="float32,bfloat16")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, each a case")
    parser.add_argument("--cores", default="", help="which to pin to (default: the first ones allowed)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of training in a round")
    parser.add_argument("--eager", action="store_true", help="PyTorch without its compiler, which takes minutes a model")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    args = parser.parse_args()
    cores = usable_cores(args.cores)
    threads = [int(t) for t in args.threads.split(",")]
    if max(threads) > len(cores):
        raise SystemExit(f"--threads: expected at most {len(cores)}, the usable cores, received {max(threads)}")
    rows, load = {}, [os.getloadavg()[0]]
    for model in args.models.split(","):
        for t in threads:
            for precision in args.precisions.split(","):
                print(f"{model}, {precision}, {t} thread{'s' if t > 1 else ''}", flush=True)
                rows[model, precision, t] = case(args, model, t, precision, cores)
                load.append(os.getloadavg()[0])
    where = (f"{cpu_model()}, {datetime.date.today()}, {os.cpu_count()} cores, load {min(load):.1f} to {max(load):.1f}; "
             f"ms/step, medians of {args.rounds} rounds:")
    text = f"{where}\n\n{table(rows)}"
    print(f"\n{text}")
    if args.write:
        write_page("throughput", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

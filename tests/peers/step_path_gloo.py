#!/usr/bin/env python3
"""All-reduce of PyTorch's Gloo on loopback: one size, whenever it is asked.

Usage: step_path_gloo.py RANKS BYTES
Rank 0 is this process, the others are its children. Answers every line on stdin (seconds) with {"us": the median}.
"""
import datetime
import json
import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def join(rank, ranks, port):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=ranks, timeout=datetime.timedelta(hours=1))


def repeat(x, count):
    times = []
    for _ in range(count):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(x)
        times.append(time.perf_counter() - start)
    return times


def follow(rank, ranks, port, elements):
    """The work of ranks above 0: as often as rank 0 says; never again at 0."""
    join(rank, ranks, port)
    x, count = torch.zeros(elements), torch.zeros(1, dtype=torch.int64)
    while True:
        dist.broadcast(count, 0)
        if count.item() == 0:
            return
        repeat(x, count.item())


def lead(ranks, port, elements):
    join(0, ranks, port)
    x = torch.zeros(elements)

    def measure(count):
        dist.broadcast(torch.tensor([count]), 0)
        return repeat(x, count) if count else []

    each = statistics.median(measure(5))
    print(json.dumps({"ready": torch.__version__}), flush=True)
    for line in sys.stdin:
        times = measure(max(5, int(float(line) / each)))
        print(json.dumps({"us": statistics.median(times) * 1e6}), flush=True)
    measure(0)
    dist.destroy_process_group()


def main():
    ranks, elements = int(sys.argv[1]), max(1, int(sys.argv[2]) // 4)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    context = mp.get_context("spawn")
    others = [context.Process(target=follow, args=(r, ranks, port, elements), daemon=True) for r in range(1, ranks)]
    for other in others:
        other.start()
    lead(ranks, port, elements)
    for other in others:
        other.join(10)
    return 0


if __name__ == "__main__":
    sys.exit(main())

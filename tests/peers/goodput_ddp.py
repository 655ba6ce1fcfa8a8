#!/usr/bin/env python3
"""One trainer of goodput.py's peer: DistributedDataParallel over Gloo, started by torchrun, which starts it again.

Trains the CNN of torch_models on Fashion-MNIST, saves every so many steps and goes on from what it finds saved. Nothing
that could wait is on its way: the data is mapped as it is used, a file is saved without a sync, and renamed.
"""
import argparse
import os
import struct
import time

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import torch_models


def save(path, net, optimizer, step):
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path + ".new")
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="has images.npy and labels.npy; gets all that is left")
    parser.add_argument("--batch", type=int, required=True, help="of all ranks together")
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10**9)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    with open(os.path.join(args.folder, f"rank-{rank}.pid"), "w", encoding="utf-8") as f:
        f.write(str(os.getpid()))
    images = np.load(os.path.join(args.folder, "images.npy"), mmap_mode="r")
    labels = np.load(os.path.join(args.folder, "labels.npy"), mmap_mode="r")
    torch.manual_seed(0)
    net = DistributedDataParallel(torch_models.build("cnn").to(memory_format=torch.channels_last))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, fused=True)
    path, first = os.path.join(args.folder, "saved.pt"), 0
    if os.path.exists(path):
        saved = torch.load(path)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    progress = os.open(os.path.join(args.folder, "progress"), os.O_WRONLY | os.O_CREAT)
    own, per_epoch, epoch, order = args.batch // ranks, len(labels) // args.batch, -1, None
    for step in range(first, args.steps):
        if step // per_epoch != epoch:
            epoch = step // per_epoch
            order = np.random.default_rng(epoch).permutation(len(labels))
        at = step % per_epoch * args.batch + rank * own
        rows = np.sort(order[at:at + own])
        x = torch.from_numpy(images[rows]).unsqueeze(1).float().div_(255).contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad(set_to_none=True)
        loss = cross_entropy(net(x), torch.from_numpy(labels[rows]))
        loss.backward()
        optimizer.step()
        if rank != 0:
            continue
        took = 0.0
        if args.save_every and (step + 1) % args.save_every == 0:
            begun = time.perf_counter()
            save(path, net, optimizer, step + 1)
            took = time.perf_counter() - begun
            os.pwrite(progress, struct.pack("<d", took), 8)
        os.pwrite(progress, struct.pack("<Q", step + 1), 0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

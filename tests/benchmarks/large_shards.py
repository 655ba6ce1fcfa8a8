#!/usr/bin/env python3
"""Trains on tar shards that are far larger than the memory that the process may use, and compares.

    tests/benchmarks/large_shards.py [--build build/release] [--gigabytes 100] [--limit-mib 2048]
                                     [--folder DIR] [--rounds 3]

The shards have rows of 768 KiB in WebDataset's convention. Their pixels are holes of sparse files, so
that 100 GB take 2 GB of a disk; a real disk bounds the rate by its own, which the bare read then has,
too. All commands run under the limit, which counts the page cache (a memory cgroup, for which the
script must be root). In turn it measures, in rows per second:

  memory   training on 512 rows again and again, which stay in memory
  shards   training on all rows of the shards, in shuffled order, for as many steps
  bare     reading the shards from their beginning to their end, without looking at a byte

The bar: shards >= min(95 % of memory, 90 % of bare), by the medians of the rounds.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPE = (3, 512, 512)
ROW = SHAPE[0] * SHAPE[1] * SHAPE[2]
BATCH = 32
SHARD_ROWS = 2048
MEMORY_ROWS = 512
GRAPH = """<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
rows (float[N,3,512,512] image) => (float[N,4] logits) {
  axes = Constant <value_ints = [2, 3]> ()
  m = ReduceMean <keepdims = 0> (image, axes)
  logits = leat.Dense <units = 4> (m)
}
"""


def tar_header(name, size):
    fields = [(name, 100), ("0000644", 8), ("0000000", 8), ("0000000", 8), (f"{size:011o}", 12),
              ("00000000000", 12), (" " * 8, 8), ("0", 1), ("", 100), ("ustar", 6), ("00", 2)]
    header = b"".join(text.encode().ljust(width, b"\0") for text, width in fields).ljust(512, b"\0")
    checksum = f"{sum(header):06o}\0 ".encode()
    return header[:148] + checksum + header[156:]


def npy_header():
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {SHAPE}, }}"
    text = text.ljust(128 - 10 - 1) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def padded(size):
    return (size + 511) // 512 * 512


def write_shard(path, first, rows):
    head = npy_header()
    at = 0
    with open(path, "wb") as out:
        for row in range(first, first + rows):
            os.pwrite(out.fileno(), tar_header(f"{row:08d}.npy", len(head) + ROW) + head, at)
            at += 512 + padded(len(head) + ROW)  # the pixels are a hole
            label = str(row % 4).encode()
            os.pwrite(out.fileno(), tar_header(f"{row:08d}.cls", 1) + label.ljust(512, b"\0"), at)
            at += 1024
        os.ftruncate(out.fileno(), at + 1024)


class Limit:
    """A memory cgroup, of the first or the second version, which the commands join."""

    def __init__(self, mib):
        first = pathlib.Path("/sys/fs/cgroup/memory")
        is_first = first.is_dir()
        self.folder = (first if is_first else first.parent) / f"leat-{os.getpid()}"
        self.folder.mkdir()
        name = "memory.limit_in_bytes" if is_first else "memory.max"
        (self.folder / name).write_text(str(mib << 20))

    def run(self, command, cwd):
        def join():
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))
        begun = time.monotonic()
        done = subprocess.run(command, cwd=cwd, preexec_fn=join, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout, time.monotonic() - begun

    def remove(self):
        self.folder.rmdir()


def write_job(folder, name, files):
    (folder / f"{name}.yaml").write_text(f"""version: 1
name: {name}
model: {{graph: rows.onnxtxt}}
data:
  root: {folder}
  rescale: 0.00392156862745098
  train:
    format: webdataset
    files: "{files}"
    columns:
      image: {{ext: npy, dtype: uint8, shape: [{", ".join(map(str, SHAPE))}]}}
      labels: {{ext: cls, dtype: int64}}
loss: cross_entropy
global_batch_size: {BATCH}
steps: 1
optimizer: {{name: sgd, learning_rate: 0.01}}
""")


def train(build, limit, folder, name, steps):
    run = f"run-{name}-{time.monotonic_ns()}"
    out, _ = limit.run([str(build / "bin/leat"), "train", f"{name}.yaml", "--json", "--output", run,
                        "--set", f"steps={steps}"], folder)
    for line in out.splitlines():
        event = json.loads(line)
        if event.get("event") == "finished":
            return event["samples_per_second"]
    raise SystemExit(f"no event 'finished' in {out[-500:]}")


def bare(limit, folder, rows):
    paths = sorted(str(path) for path in folder.glob("shard-*.tar"))
    _, seconds = limit.run(["sh", "-c", 'for f; do dd if="$f" of=/dev/null bs=1M status=none; done',
                            "read", *paths], folder)
    return rows / seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--gigabytes", type=float, default=100)
    parser.add_argument("--limit-mib", type=int, default=2048)
    parser.add_argument("--folder")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.build = options.build.resolve()
    rows = int(options.gigabytes * 1e9 / (ROW + 2048)) // BATCH * BATCH
    with tempfile.TemporaryDirectory(dir=options.folder) as path:
        folder = pathlib.Path(path)
        (folder / "rows.onnxtxt").write_text(GRAPH)
        for shard, first in enumerate(range(0, rows, SHARD_ROWS)):
            write_shard(folder / f"shard-{shard:05d}.tar", first, min(SHARD_ROWS, rows - first))
        write_shard(folder / "memory.tar", 0, MEMORY_ROWS)
        size = sum(each.stat().st_size for each in folder.glob("shard-*.tar"))
        print(f"{rows} rows, {size / 1e9:.1f} GB of shards, limit {options.limit_mib} MiB",
              flush=True)
        write_job(folder, "shards", "shard-*.tar")
        write_job(folder, "memory", "memory.tar")
        limit = Limit(options.limit_mib)
        rates = {"memory": [], "shards": [], "bare": []}
        try:
            for _ in range(options.rounds):
                rates["memory"].append(train(options.build, limit, folder, "memory", rows // BATCH))
                rates["shards"].append(train(options.build, limit, folder, "shards", rows // BATCH))
                rates["bare"].append(bare(limit, folder, rows))
                print({name: round(values[-1]) for name, values in rates.items()}, flush=True)
        finally:
            limit.remove()
        memory, shards, read = (statistics.median(rates[name])
                                for name in ("memory", "shards", "bare"))
        bar = min(0.95 * memory, 0.9 * read)
        print(f"rows/s: memory {memory:.0f}, shards {shards:.0f}, bare read {read:.0f}; "
              f"the bar is {bar:.0f}: {'met' if shards >= bar else 'NOT MET'}")


main()

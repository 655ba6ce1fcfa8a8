"""Runs `leat train` for a comparison, and says which records its steps read."""
import contextlib
import gzip
import json
import os
import subprocess

import numpy as np

from side_by_side import BINARIES, HERE, ROOT, own_environment

DATA = "/usr/share/datasets/fashion-mnist"
RESCALE = 0.00392156862745098
CONFIGS = os.path.join(ROOT, "configs", "graphs")
GRAPHS = {
    "mlp": os.path.join(CONFIGS, "fashion_mlp.onnxtxt"),
    "cnn": os.path.join(HERE, "graphs", "cnn.onnxtxt"),  # without dropout
    "cnn-bn": os.path.join(CONFIGS, "fashion_cnn_bn.onnxtxt"),
}
BATCHES = {"cnn": 128, "mlp": 128, "resnet18": 32, "gpt": 8}  # records of a step of the speed comparison


def split(name):
    """The model and the batch of a name: `vgg11:8`, or one of BATCHES."""
    model, _, batch = name.partition(":")
    return model, int(batch) if batch else BATCHES[model]


# As a job file writes them, and as torch.optim does.
OPTIMIZERS = {
    "momentum": "{name: sgd, learning_rate: 0.05, momentum: 0.9}",
    "adamw": "{name: adamw, learning_rate: 0.001}",
}


def default_binary():
    return os.path.join(BINARIES, "leat")


def write_job(folder, name, job):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "job.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"version: 1\nname: peer-{name}\nloss: cross_entropy\nshards: 1\n{job}")
    return path


def fashion_job(folder, model, optimizer, steps, *, seed=11, precision="float32", shuffle=True, batch=128,
                weights=None):
    """Writes a job that trains one of GRAPHS on Fashion-MNIST; returns its path."""
    return write_job(folder, model, f"""
model: {{graph: {GRAPHS[model]}{f", weights: {weights}" if weights else ""}}}
data:
  root: {DATA}
  train: {{format: idx, features: train-images-idx3-ubyte.gz, labels: train-labels-idx1-ubyte.gz}}
  rescale: {RESCALE}
  shuffle: {str(shuffle).lower()}
optimizer: {OPTIMIZERS[optimizer]}
global_batch_size: {batch}
steps: {steps}
seed: {seed}
precision: {precision}
""")


def exported_job(folder, model, optimizer, steps, *, precision="float32", batch=32, batches=4):
    """Exports a model of torch_models, and writes a job that trains it on random records, `batches` an epoch."""
    import torch

    import torch_models
    inputs, labels = torch_models.records(model, batches * batch)
    torch.manual_seed(0)
    net = torch_models.build(model).train()
    path = os.path.join(folder, "model.onnx")
    with contextlib.redirect_stdout(None):
        torch.onnx.export(net, (inputs[:batch],), path, input_names=["x"], optimize=False)
    np.save(os.path.join(folder, "x.npy"), inputs.numpy())
    np.save(os.path.join(folder, "labels.npy"), labels.numpy())
    return write_job(folder, model, f"""
model: {{graph: model.onnx}}
data: {{root: ., train: {{format: npy, files: {{x: x.npy, labels: labels.npy}}}}}}
optimizer: {OPTIMIZERS[optimizer]}
global_batch_size: {batch}
steps: {steps}
precision: {precision}
""")


def train(binary, folder, path, *, threads=1, prefix=(), output=None, more=()):
    """Runs a job; its events. `prefix` is put before the command, and `more` behind it."""
    done = subprocess.run([*prefix, binary, "train", path, "--workers", "1", "--threads", str(threads),
                           "--json", "--output", output or os.path.join(folder, "run"), *more],
                          env=own_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"leat train {path}: exit code {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def run(binary, folder, model, optimizer, steps, *, threads=1, prefix=(), **options):
    """Trains one of GRAPHS on Fashion-MNIST in `folder`; the events of the run."""
    path = fashion_job(folder, model, optimizer, steps, **options)
    return train(binary, folder, path, threads=threads, prefix=prefix)


def metrics(run):
    """The rows of metrics.jsonl in the folder of a run."""
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def losses(folder):
    return [row["loss"] for row in metrics(os.path.join(folder, "run")) if "epoch" not in row]


def read_idx(path):
    with gzip.open(path) as f:
        data = f.read()
    rank = data[3]
    shape = np.frombuffer(data, ">u4", rank, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def fashion_mnist():
    """The training images [60000,28,28] and labels [60000]; both uint8."""
    return (read_idx(os.path.join(DATA, "train-images-idx3-ubyte.gz")),
            read_idx(os.path.join(DATA, "train-labels-idx1-ubyte.gz")))


# The keyed shuffle of devices/base/philox.h and ops/definitions/input.cc, written a second time.

MASK32, MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def philox(counter, key):
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK32, (p0 >> 32) ^ c3 ^ k1, p0 & MASK32
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return c0, c1, c2, c3


def halves(x):
    return x & MASK32, x >> 32


def mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK64
    return x ^ (x >> 31)


class Permutation:
    def __init__(self, n, key):
        bits = max(2, (n - 1).bit_length())
        self.n, self.left_bits, self.right_bits = n, bits // 2, bits - bits // 2
        words = [philox((r, 0, *halves(n)), halves(key)) for r in range(8)]
        self.round_keys = [w[1] << 32 | w[0] for w in words]

    def __call__(self, i):
        left_mask, right_mask = (1 << self.left_bits) - 1, (1 << self.right_bits) - 1
        while True:
            left, right = i >> self.right_bits, i & right_mask
            for r in range(0, 8, 2):
                left ^= mix((right + self.round_keys[r]) & MASK64) & left_mask
                right ^= mix((left + self.round_keys[r + 1]) & MASK64) & right_mask
            i = left << self.right_bits | right
            if i < self.n:
                return i


def records(count, seed, shuffle, batch, steps):
    """Which record each row of each step holds: [steps,batch]."""
    orders, out = {}, np.empty(steps * batch, np.int64)
    for position in range(steps * batch):
        epoch, place = divmod(position, count)
        if shuffle and epoch not in orders:
            words = philox((*halves(epoch), 0x45504F43, 0), halves(seed))
            orders[epoch] = Permutation(count, words[1] << 32 | words[0])
        out[position] = orders[epoch](place) if shuffle else place
    return out.reshape(steps, batch)

"""One peer of throughput.py: a process that trains on one batch in memory when it is told to.

throughput_peer.py torch|tensorflow|xla MODEL THREADS PRECISION all|eager. It prints {"ready": its settings}, then
for each line "SECONDS" on stdin {"ms": milliseconds a step, mean over about so long}. A PRECISION other
than float32 also tries autocast, beside all settings of float32.
"""
import json
import os
import sys
import time

import numpy as np

BATCH = 128


def batch():
    """Random images [128,28,28,1] and labels."""
    rng = np.random.default_rng(0)
    return rng.random((BATCH, 28, 28, 1), np.float32), rng.integers(0, 10, BATCH)


def measure(step, seconds):
    step()
    steps, begin = 0, time.perf_counter()
    while steps < 5 or time.perf_counter() - begin < seconds:
        step()
        steps += 1
    return (time.perf_counter() - begin) / steps * 1e3


def torch_steps(model, threads, precision, compiler):
    """Every setting that may be PyTorch's best, as {name: step}."""
    import torch

    import leat_job
    import torch_models
    torch.set_num_threads(threads)
    model, batch_size = leat_job.split(model)
    inputs, labels = torch_models.records(model, batch_size)

    def make(layout, compiled, dtype):
        torch.manual_seed(0)
        torch.compiler.reset()
        net = torch_models.build(model)
        x = inputs
        if layout is not None:
            net, x = net.to(memory_format=layout), inputs.contiguous(memory_format=layout)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, fused=True)

        def loss_of(x):
            with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
                scores = net(x)
            return torch_models.loss_of(scores.float(), labels)
        loss_fn = torch.compile(loss_of) if compiled else loss_of

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = loss_fn(x)
            loss.backward()
            optimizer.step()
            return loss.item()
        return step

    layouts = {"": None} if inputs.dim() < 4 or model == "mlp" else {"": None, " channels_last": torch.channels_last}
    for dtype in dict.fromkeys(["float32", precision]):
        for name, layout in layouts.items():
            name += "" if dtype == "float32" else f" {dtype}"
            yield f"eager{name}", make(layout, False, getattr(torch, dtype))
            if compiler:
                yield f"compile{name}", make(layout, True, getattr(torch, dtype))


def tensorflow_steps(model, threads, xla):
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(0)
    convolutions = [] if model == "mlp" else [
        layers.Conv2D(32, 3, padding="same", activation="relu"), layers.MaxPool2D(),
        layers.Conv2D(64, 3, padding="same", activation="relu"), layers.MaxPool2D()]
    dense = [layers.Dense(units, activation="relu") for units in ([512, 512] if model == "mlp" else [128])]
    net = tf.keras.Sequential([tf.keras.Input((28, 28, 1)), *convolutions, layers.Flatten(), *dense, layers.Dense(10)])
    images, labels = (tf.constant(a) for a in batch())
    weights = net.trainable_variables
    velocity = [tf.Variable(tf.zeros_like(w)) for w in weights]

    @tf.function(jit_compile=xla)
    def train():
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, net(images, training=True))
            loss = tf.reduce_mean(losses)
        for w, v, g in zip(weights, velocity, tape.gradient(loss, weights)):
            v.assign(0.9 * v + g)
            w.assign_sub(0.05 * v)
        return loss

    yield "tf.function", lambda: float(train())


def main():
    peer, model, threads, precision = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS=str(threads),
                      TORCHINDUCTOR_COMPILE_THREADS="1")
    compiler = sys.argv[5] == "all"
    if peer == "torch":
        steps = torch_steps(model, threads, precision, compiler)
    else:
        steps = tensorflow_steps(model, threads, peer == "xla")
    best, tried = None, []
    for name, step in steps:
        try:
            ms = min(measure(step, 0.7) for _ in range(3))
        except Exception as error:  # a compiler's failure takes one setting away, not the peer
            tried.append(f"{name}: {type(error).__name__}")
            continue
        tried.append(f"{name}: {ms:.2f} ms")
        if best is None or ms < best[0]:
            best = (ms, name, step)
    if best is None:
        raise SystemExit(f"no setting of {peer} works: {'; '.join(tried)}")
    print(json.dumps({"ready": best[1], "tried": tried}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"ms": measure(best[2], float(line))}), flush=True)


if __name__ == "__main__":
    main()

"""Models of Flax and functions of JAX for other_exporters.py: each is exported by jax2onnx and trained by
JAX."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from flax import nnx
from jax2onnx import to_onnx

RECORDS, BATCH, CLASSES = 8, 4, 10


def finish(call, weights, x, path, steps, rate):
    """`call(weights, x)` returns the scores."""
    generator = np.random.default_rng(7)
    labels = generator.integers(0, CLASSES, RECORDS).astype(np.int64)
    model = to_onnx(lambda x: call(weights, x), [jax.ShapeDtypeStruct((BATCH, *x.shape[1:]), x.dtype)],
                    return_mode="proto")
    onnx.save(model, path)

    def loss_of(weights, rows):
        scores = jax.nn.log_softmax(call(weights, x[rows]))
        return -jnp.mean(scores[jnp.arange(BATCH), labels[rows]])
    losses = []
    for i in range(steps):
        rows = np.array([(i * BATCH + r) % RECORDS for r in range(BATCH)])
        loss, gradient = jax.value_and_grad(loss_of)(weights, rows)
        weights = jax.tree.map(lambda w, g: w - rate * g, weights, gradient)
        losses.append(float(loss))
    return {"inputs": {model.graph.input[0].name: x}, "labels": labels, "losses": losses}


def module(make, shape, path, steps, rate, limit=0):
    generator = np.random.default_rng(5)
    net = make(nnx.Rngs(3))
    x = (generator.integers(0, limit, (RECORDS, *shape)).astype(np.int32) if limit
         else generator.standard_normal((RECORDS, *shape)).astype(np.float32))
    definition, weights, rest = nnx.split(net, nnx.Param, ...)
    weights = jax.tree.map(lambda w: w + generator.uniform(0.01, 0.1, w.shape).astype(np.float32), weights)
    return finish(lambda w, x: nnx.merge(definition, w, rest)(x), weights, x, path, steps, rate)


def function(build, path, steps, rate):
    generator = np.random.default_rng(11)
    shapes, call = build()
    weights = [jnp.asarray(generator.standard_normal(s).astype(np.float32) * 0.3) for s in shapes]
    x = generator.standard_normal((RECORDS, 6)).astype(np.float32)
    return finish(lambda w, x: call(x, *w), weights, x, path, steps, rate)


class Stack(nnx.Module):
    def __init__(self, *parts):
        self.parts = nnx.List(parts)

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x


def flatten(x):
    return x.reshape(x.shape[0], -1)


class Block(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.LayerNorm(16, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 16, decode=False, rngs=rngs)
        self.wide, self.back = nnx.Linear(16, 32, rngs=rngs), nnx.Linear(32, 16, rngs=rngs)
        self.head = nnx.Linear(16 * 9, CLASSES, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norm(x))
        return self.head(flatten(x + self.back(nnx.gelu(self.wide(x)))))


def scan():
    return [(6, 6), (6, CLASSES)], lambda x, w, v: jax.lax.scan(
        lambda c, _: (jnp.tanh(c @ w), None), x, None, length=4)[0] @ v


def fori():
    return [(6, 6), (6, CLASSES)], lambda x, w, v: jax.lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ w), x) @ v


def condition():
    return [(6, 8), (6, 8), (8, CLASSES)], lambda x, w, u, v: jax.lax.cond(
        jnp.sum(x) > 0, lambda x: jax.nn.relu(x @ w), lambda x: jnp.sin(x @ u), x) @ v


def pieces():
    def call(x, w, v):
        a, b, c = jnp.split(x @ w, 3, axis=1)
        y = jnp.concatenate([jax.lax.cumsum(a, 1), b[:, ::-1], jnp.roll(c, 1, 1)], 1)
        return jnp.where(y > 0, y, jnp.expm1(jnp.minimum(y, 0.0))) @ v
    return [(6, 12), (12, CLASSES)], call


def gathers():
    def call(x, w, table):
        index = (jnp.abs(x[:, 0]) * 10).astype(jnp.int32) % 30
        return jnp.einsum("bi,bio->bo", x @ w, table[index])
    return [(6, 8), (30, 8, CLASSES)], call


def sorts():
    return [(6, 12), (17, CLASSES)], lambda x, w, v: jnp.concatenate(
        [jax.lax.top_k(x @ w, 5)[0], jnp.sort(x @ w, 1)], 1) @ v


def statistics():
    def call(x, w, v):
        y = x @ w
        y = (y - y.mean(1, keepdims=True)) * jax.lax.rsqrt(y.var(1, keepdims=True) + 1e-3)
        return (y * jax.nn.logsumexp(x, 1, keepdims=True) + jax.scipy.special.erf(y)) @ v
    return [(6, 8), (8, CLASSES)], call


def scatter():
    def call(x, w, v):
        y = (x @ w).at[:, 1].set(0.5)
        return y.at[:, 2:5].add(y[:, 5:8]) @ v
    return [(6, 8), (8, CLASSES)], call


def mapped():
    return [(6, 6), (6, CLASSES)], lambda x, w, v: jax.vmap(lambda r: jnp.tanh(w @ r))(x) @ v


IMAGE = (12, 12, 3)
MODULES = {
    "mlp": (lambda r: Stack(nnx.Linear(6, 8, rngs=r), nnx.relu, nnx.Linear(8, CLASSES, rngs=r)), (6,)),
    "activations": (lambda r: Stack(nnx.Linear(6, 8, rngs=r), nnx.elu, nnx.selu, nnx.silu, nnx.softplus, nnx.hard_silu,
                                    nnx.celu, nnx.leaky_relu, nnx.gelu, nnx.sigmoid, nnx.tanh, nnx.log_softmax,
                                    nnx.Linear(8, CLASSES, rngs=r)), (6,)),
    "conv": (lambda r: Stack(nnx.Conv(3, 4, (3, 3), strides=2, rngs=r), nnx.relu, flatten,
                             nnx.Linear(144, CLASSES, rngs=r)), IMAGE),
    "conv_valid": (lambda r: Stack(nnx.Conv(3, 6, (3, 3), padding="VALID", feature_group_count=3, rngs=r), flatten,
                                   nnx.Linear(600, CLASSES, rngs=r)), IMAGE),
    "conv_transpose": (lambda r: Stack(nnx.ConvTranspose(3, 4, (3, 3), strides=(2, 2), rngs=r), flatten,
                                       nnx.Linear(2304, CLASSES, rngs=r)), IMAGE),
    "pools": (lambda r: Stack(nnx.Conv(3, 4, (3, 3), rngs=r), functools.partial(
        nnx.max_pool, window_shape=(2, 2), strides=(2, 2)), functools.partial(
            nnx.avg_pool, window_shape=(3, 3), strides=(1, 1), padding="SAME"), flatten,
        nnx.Linear(144, CLASSES, rngs=r)), IMAGE),
    "group_norm": (lambda r: Stack(nnx.Conv(3, 8, (3, 3), rngs=r), nnx.GroupNorm(8, 4, rngs=r), flatten,
                                   nnx.Linear(1152, CLASSES, rngs=r)), IMAGE),
    "rms_norm": (lambda r: Stack(nnx.RMSNorm(6, rngs=r), nnx.Linear(6, CLASSES, rngs=r)), (6,)),
    "embedding": (lambda r: Stack(nnx.Embed(50, 8, rngs=r), flatten, nnx.Linear(72, CLASSES, rngs=r)), (9,), 50),
    "attention": (Block, (9, 16)),
}
FUNCTIONS = {f.__name__: functools.partial(function, f) for f in (
    scan, fori, condition, pieces, gathers, sorts, statistics, scatter, mapped)}
GROUPS = {"jax": {**{n: functools.partial(module, make, shape, limit=limit[0] if limit else 0)
                     for n, (make, shape, *limit) in MODULES.items()}, **FUNCTIONS}}

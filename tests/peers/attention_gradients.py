#!/usr/bin/env python3
"""Compares Attention and its gradient with PyTorch's scaled_dot_product_attention.

    attention_gradients.py BUILD

BUILD is a build folder with onnx_tests. The script writes one model for each case: it computes
Attention and leat.AttentionGrad, and the largest difference from what PyTorch's autograd gave, over
the largest absolute value there. onnx_tests runs the models, each interpreted and as a plan.
"""

import argparse
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnx.helper
import onnx.numpy_helper
import torch

# The most that a value may differ by, over the largest one of its tensor, or over 0.1 if that is
# less: with one visible key, the gradient of Q is 0.
TOLERANCES = {"float64": 1e-13, "float32": 2e-6}
# onnx_tests accepts a difference of this size where 0 is expected.
ACCEPTED = 1e-7

# Rows, heads of Q, heads of K, queries, keys, columns of Q, columns of V.
SHAPES = [(2, 4, 4, 16, 16, 8, 8), (1, 6, 2, 7, 9, 5, 3), (2, 3, 1, 1, 5, 4, 4),
          (1, 2, 2, 130, 520, 16, 24), (2, 2, 2, 96, 96, 64, 64)]
MASKS = [None, "causal", "bool", "float", "float of heads"]


def torch_values(shape, mask, dtype, scale, seed):
    """The operands, and the outputs with the gradients of sum(y * dy), from PyTorch in doubles."""
    n, q_heads, kv_heads, queries, keys, columns, v_columns = shape
    generator = torch.Generator().manual_seed(seed)

    def random(*sizes):
        values = torch.randn(*sizes, generator=generator, dtype=torch.float64)
        return values.to(getattr(torch, dtype)).to(torch.float64)

    q, k = random(n, q_heads, queries, columns), random(n, kv_heads, keys, columns)
    v, dy = random(n, kv_heads, keys, v_columns), random(n, q_heads, queries, v_columns)
    bias = None
    if mask == "bool":
        bias = torch.rand(queries, keys, generator=generator) < 0.7
        bias[:, 0] = True
    elif mask == "float":
        bias = random(n, 1, queries, keys)
    elif mask == "float of heads":
        bias = random(1, q_heads, queries, keys)
    wanted = [t for t in (q, k, v, bias) if t is not None and t.is_floating_point()]
    for value in wanted:
        value.requires_grad_(True)
    y = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias, is_causal=mask == "causal", scale=scale, enable_gqa=True)
    gradients = torch.autograd.grad(y, wanted, dy)
    operands = {"Q": q, "K": k, "V": v, "dY": dy}
    if bias is not None:
        operands["mask"] = bias
    names = ["dQ", "dK", "dV", "dmask"]
    return operands, {"Y": y, **dict(zip(names, gradients))}


def write_case(folder, shape, mask, dtype, scale, seed):
    operands, expected = torch_values(shape, mask, dtype, scale, seed)
    element = onnx.helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype))
    attributes = {"is_causal": int(mask == "causal")}
    if scale is not None:
        attributes["scale"] = scale
    of_mask = "mask" if "mask" in operands else ""
    make = onnx.helper.make_node
    nodes = [
        make("Attention", ["Q", "K", "V", of_mask], ["Y", "", "", "", "sums"], **attributes),
        make("AttentionGrad", ["Q", "K", "V", "Y", "sums", "dY", of_mask],
             [name for name in ("dQ", "dK", "dV", "dmask") if name in expected or name != "dmask"],
             domain="leat", **attributes)]
    inputs = {name: value.detach().numpy() for name, value in operands.items()}
    for name, value in expected.items():
        inputs[f"torch {name}"] = value.detach().numpy()
        factor = ACCEPTED / TOLERANCES[dtype] / max(0.1, float(value.detach().abs().max()))
        nodes += [
            make("Constant", [], [f"factor {name}"], value=onnx.numpy_helper.from_array(
                numpy.array(factor, dtype=dtype))),
            make("Sub", [name, f"torch {name}"], [f"difference {name}"]),
            make("Abs", [f"difference {name}"], [f"size {name}"]),
            make("ReduceMax", [f"size {name}"], [f"largest {name}"], keepdims=0),
            make("Mul", [f"largest {name}", f"factor {name}"], [f"error {name}"])]
    arrays = {name: value if value.dtype == bool else value.astype(dtype)
              for name, value in inputs.items()}
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "attention",
        [info(name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
         for name, value in arrays.items()],
        [info(f"error {name}", element, ()) for name in expected])
    model = onnx.helper.make_model(graph, opset_imports=[
        onnx.helper.make_opsetid("", 23), onnx.helper.make_opsetid("leat", 1)])
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for i, (name, value) in enumerate(arrays.items()):
        (data / f"input_{i}.pb").write_bytes(
            onnx.numpy_helper.from_array(value, name).SerializeToString())
    for i in range(len(expected)):
        (data / f"output_{i}.pb").write_bytes(
            onnx.numpy_helper.from_array(numpy.zeros((), dtype=dtype)).SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        count = 0
        for shape, mask, dtype, scale in itertools.product(SHAPES, MASKS, TOLERANCES, (None, 0.3)):
            write_case(pathlib.Path(temporary) / "node" / f"attention_{count:03}_{mask}_{dtype}",
                       shape, mask, dtype, scale, count)
            count += 1
        print(f"PyTorch {torch.__version__}: {count} cases, to {TOLERANCES} of the largest value")
        environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
        environment["LEAT_ONNX_CASES"] = temporary
        tests = arguments.build / "bin" / "onnx_tests"
        return subprocess.run([tests, "ONNX's own cases of our ops pass"], env=environment,
                              check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

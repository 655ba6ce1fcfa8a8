#!/usr/bin/env python3
"""Runs all node cases of the installed onnx package in Leat.

    onnx_cases.py BUILD [--keep FOLDER]

BUILD is a build folder with onnx_tests. The script writes every case as ONNX's test data does it
(model.onnx, test_data_set_0/input_0.pb, ...) and runs onnx_tests on them, which fails if a case of
ops that Leat has gives a wrong result. It prints how many ran and passed, and the reasons of the
others.
"""

import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy
import onnx
import onnx.backend.test.loader
import onnx.numpy_helper

# ONNX's element types of tensors that Leat has: all but strings (8) and complex numbers (14, 15).
SUPPORTED = set(range(1, 29)) - {8, 14, 15}


def other_kind(model):
    """The first kind of value that Leat does not have among the inputs and outputs; else None."""
    for value in list(model.graph.input) + list(model.graph.output):
        if not value.type.HasField("tensor_type"):
            return "values of the type " + value.type.WhichOneof("value").removesuffix("_type")
        if value.type.tensor_type.elem_type not in SUPPORTED:
            name = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower()
            return "tensors of " + name.replace("string", "strings")
    return None


def write_tensors(folder, kind, values, infos):
    for i, (value, info) in enumerate(zip(values, infos)):
        if value is None:
            continue
        if isinstance(value, onnx.TensorProto):
            (folder / f"{kind}_{i}.pb").write_bytes(value.SerializeToString())
            continue
        array = numpy.asarray(value)
        if info.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16 and array.itemsize == 2:
            array = array.view(numpy.uint16)
        (folder / f"{kind}_{i}.pb").write_bytes(
            onnx.numpy_helper.from_array(array, info.name).SerializeToString())


def write_cases(root):
    """Writes the cases; returns their number and that of cases with other kinds of values."""
    others = collections.Counter()
    written = 0
    for case in onnx.backend.test.loader.load_model_tests(kind="node"):
        if case.model is None or not case.data_sets:
            others["no model or no data"] += 1
            continue
        kind = other_kind(case.model)
        if kind:
            others[kind] += 1
            continue
        folder = root / "node" / case.name
        for n, (inputs, outputs) in enumerate(case.data_sets):
            data = folder / f"test_data_set_{n}"
            data.mkdir(parents=True)
            write_tensors(data, "input", inputs, case.model.graph.input)
            write_tensors(data, "output", outputs, case.model.graph.output)
        (folder / "model.onnx").write_bytes(case.model.SerializeToString())
        written += 1
    return written, others


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="write the cases here, and keep them")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as temporary:
        root = arguments.keep or pathlib.Path(temporary)
        written, others = write_cases(root)
        print(f"onnx {onnx.__version__}: {written} cases of tensors; {sum(others.values())} of others:")
        for kind, count in sorted(others.items()):
            print(f"| {kind} | {count} |")
        environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
        environment["LEAT_ONNX_CASES"] = str(root)
        tests = arguments.build / "bin" / "onnx_tests"
        return subprocess.run([tests, "ONNX's own cases of our ops pass"], env=environment,
                              check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

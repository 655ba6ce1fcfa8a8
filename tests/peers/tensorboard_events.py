#!/usr/bin/env python3
"""Compares what TensorFlow reads of `leat metrics RUN --tensorboard DIR` with metrics.jsonl.

    tensorboard_events.py LEAT RUN
"""
import json
import subprocess
import sys
import tempfile

import numpy as np
from tensorflow.compat.v1.train import summary_iterator


def expected(run):
    numbers = {}
    with open(f"{run}/metrics.jsonl", encoding="utf-8") as log:
        for row in map(json.loads, log):
            flat = {**row, **row.get("timing", {})}
            for name, value in flat.items():
                if name in ("step", "epoch", "timing") or not isinstance(value, (int, float)):
                    continue
                if "epoch" in row:
                    name = f"validation/{name[4:]}" if name.startswith("val_") else f"epoch/{name}"
                numbers[name, row["step"]] = np.float32(value)
    return numbers


def main():
    leat, run = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        path = subprocess.run([leat, "metrics", run, "--tensorboard", folder], check=True,
                              capture_output=True, text=True).stdout.strip()
        read = {(value.tag, event.step): np.float32(value.simple_value)
                for event in summary_iterator(path) for value in event.summary.value}
    if read != expected(run):
        sys.exit(f"expected {len(expected(run))} numbers, received {len(read)}, or other ones")
    print(f"{len(read)} numbers are those of metrics.jsonl")


main()

#!/usr/bin/env python3
"""Asks onnx.parser to read what Leat prints: onnx_text.py OPS_TESTS [FILE...]

OPS_TESTS is the binary ops_tests, which writes random graphs; FILEs are read as well. Exits 1 and
names the file if onnx.parser refuses one, or reads other nodes than are written.
"""
import os
import re
import subprocess
import sys
import tempfile

import onnx.parser


def refused(path):
    """Why onnx.parser cannot read the file, or None."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    try:
        model = onnx.parser.parse_model(text)
    except Exception as e:  # the parser has errors of several types
        return str(e)
    # The nodes of the top graph stand alone on lines indented by two.
    lines = [l for l in text.splitlines() if re.match(r"  [^ }]", l)]
    if len(lines) != len(model.graph.node):
        return f"expected {len(lines)} nodes, onnx.parser found {len(model.graph.node)}"
    return None


def main():
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, LEAT_TEXT_FOLDER=folder)
        subprocess.run([sys.argv[1], "[peer]"], env=env, check=True, stdout=subprocess.DEVNULL)
        paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))] + sys.argv[2:]
        bad = 0
        for path in paths:
            why = refused(path)
            if why:
                bad += 1
                print(f"{path}: {why}")
        print(f"{len(paths) - bad} of {len(paths)} files are read")
        return 1 if bad or not paths else 0


if __name__ == "__main__":
    sys.exit(main())

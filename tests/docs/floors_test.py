#!/usr/bin/env python3
"""Checks that docs/README.md lists the floors of each folder as tests/layering/layering.cmake does.

  floors_test.py               checks the tree
  floors_test.py --self-test   checks planted lists
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def floors_of_script(text):
    """{folder: names, bottom to top}; of a floor that has files of the folder, their names."""
    floors = {}
    for folder, names in re.findall(r"^set\(FLOORS_(\w+)\s([^)]*)\)", text, re.MULTILINE):
        floors[folder] = []
        for floor in names.split():
            _, colon, files = floor.partition(":")
            floors[folder] += files.split(",") if colon else [floor]
    return floors


def floors_of_page(text):
    """The same, of the rows of the table of folders."""
    rows = re.findall(r"^\| `(\w+)/` \|[^|]*\|([^|]*)\|$", text, re.MULTILINE)
    return {folder: re.findall(r"`([^`]*)`", cell) for folder, cell in rows}


def compare(script, page):
    lines = []
    for folder in sorted(script.keys() | page.keys()):
        expected, received = script.get(folder), page.get(folder)
        if expected != received:
            lines.append(f"docs/README.md: the floors of {folder}/: expected {expected}, "
                         f"received {received}")
    return lines


def self_test():
    script = floors_of_script("set(FLOORS_a x y)\nset(FLOORS_b low:p,q\n  z top:r)\n")
    page = floors_of_page("| `a/` | task | `x` `y` |\n| `b/` | task | low (`p`, `q`), `z`, `r` |\n")
    wrong = floors_of_page("| `a/` | task | `y` `x` |\n")
    failures = compare(script, page)
    if len(compare(script, wrong)) != 2:
        failures.append(f"expected two findings, received {compare(script, wrong)}")
    return failures


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def main(arguments):
    if arguments == ["--self-test"]:
        lines = self_test()
    elif not arguments:
        lines = compare(floors_of_script(read("tests/layering/layering.cmake")),
                        floors_of_page(read("docs/README.md")))
    else:
        print(__doc__)
        return 2
    if lines:
        print("\n".join(lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

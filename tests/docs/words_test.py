#!/usr/bin/env python3
"""Checks docs/words.md against the code: the files of a row have the classes that the row names,
each word stands in one row, and the rows of a table have three cells.

  words_test.py               checks the tree
  words_test.py --self-test   checks a planted table
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

CLASS = re.compile(r"`([A-Z]\w*(?:::\w+)?)`")
PLACE = re.compile(r"`([a-z]\w*/[\w./]*)`")


def check(page, read):
    """One line for each finding. `read` gives a file's text, or "" for a folder."""
    lines = []
    words = set()
    for number, row in enumerate(page.split("\n"), 1):
        if not row.startswith("| ") or row.startswith(("| ---", "| word |")):
            continue
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        at = f"docs/words.md:{number}"
        if len(cells) != 3 or not PLACE.search(cells[2]):
            lines.append(f"{at}: expected a word, its meaning and the place where it lives")
            continue
        if cells[0] in words:
            lines.append(f"{at}: '{cells[0]}' has two meanings")
        words.add(cells[0])
        places = PLACE.findall(cells[2])
        texts = [read(place) for place in places]
        for name in CLASS.findall(row):
            parts = name.split("::")
            if not any(all(re.search(rf"\b{part}\b", text) for part in parts) for text in texts):
                lines.append(f"{at}: none of {', '.join(places)} has {name}")
    return lines


def self_test():
    page = ("| word | meaning | lives in |\n| --- | --- | --- |\n"
            "| a | a thing: `Thing` | `x/thing.h` |\n"
            "| b | another | `Part::of` in `x/thing.h`, `x/` |\n"
            "| a | once more | `x/` |\n| c | `Gone` | `x/thing.h` |\n| d | lives nowhere | |\n")
    files = {"x/thing.h": "class Thing {};\nclass Part { void of(); };", "x/": ""}
    received = check(page, files.get)
    expected = ["docs/words.md:5: 'a' has two meanings",
                "docs/words.md:6: none of x/thing.h has Gone",
                "docs/words.md:7: expected a word, its meaning and the place where it lives"]
    return [] if received == expected else [f"expected {expected}, received {received}"]


def read(path):
    path = os.path.join(ROOT, path)
    if not os.path.isfile(path):  # paths.cmake finds the ones that are not there
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def main(arguments):
    if arguments not in ([], ["--self-test"]):
        print(__doc__)
        return 2
    lines = self_test() if arguments else check(read("docs/words.md"), read)
    if lines:
        print("\n".join(lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Checks the list of docs/attacks.md.

  numbers  the attacks are numbered 1, 2, 3, and so on, and there are 60 or more
  names    no two attacks have one name
  tests    each attack names a test case that is in tests/

With --self-test it plants faults in a list and has to find each of them.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (\d+) \| (.+) \| `(.+)` \|$", re.MULTILINE)
CASE = re.compile(r'TEST_CASE\(\s*"((?:[^"\\]|\\.|"\s*")*)"')
LEAST = 60


def titles_in(sources):
    """The titles of all test cases; one that is longer than a line has several literals."""
    return {re.sub(r'"\s*"', "", title) for source in sources for title in CASE.findall(source)}


def check(page, titles):
    rows = ROW.findall(page)
    lines = []
    numbers = [int(number) for number, _, _ in rows]
    if numbers != list(range(1, len(rows) + 1)):
        lines.append(f"numbers: expected 1 to {len(rows)} in order, received {numbers}")
    if len(rows) < LEAST:
        lines.append(f"numbers: expected {LEAST} attacks or more, received {len(rows)}")
    names = [name for _, name, _ in rows]
    lines += [f"names: '{name}' is there twice" for name in sorted(set(names)) if names.count(name) > 1]
    lines += [f"attack {number}: no test has the title '{title}'"
              for number, _, title in rows if title not in titles]
    return lines


def self_test():
    titles = {f"test {n}" for n in range(1, LEAST + 1)}
    good = [f"| {n} | attack {n} | `test {n}` |" for n in range(1, LEAST + 1)]
    faults = {
        "a test that is not there": good[:-1] + [f"| {LEAST} | attack {LEAST} | `test 0` |"],
        "one attack too few": good[:-1],
        "a number that is missing": good[:10] + good[11:] + [f"| {LEAST + 1} | more | `test 1` |"],
        "a name that is there twice": good[:-1] + [f"| {LEAST} | attack 1 | `test {LEAST}` |"],
    }
    lines = [f"a good list: {line}" for line in check("\n".join(good), titles)]
    lines += [f"not found: {fault}" for fault, rows in faults.items()
              if not check("\n".join(rows), titles)]
    source = 'TEST_CASE("one title", "[tag]") {}\nTEST_CASE("a title of "\n          "two lines") {}'
    if titles_in([source]) != {"one title", "a title of two lines"}:
        lines.append(f"titles: received {titles_in([source])}")
    return lines


def main(arguments):
    if arguments not in ([], ["--self-test"]):
        print(__doc__)
        return 2
    if arguments:
        lines = self_test()
    else:
        sources = [path.read_text() for path in sorted((ROOT / "tests").rglob("*_test.cc"))]
        page = (ROOT / "docs" / "attacks.md").read_text()
        lines = check(page, titles_in(sources))
        if not lines:
            print(f"{len(ROW.findall(page))} attacks, each with its test")
    print("\n".join(lines), end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Checks the links of the README and the pages to headings: each heading must be there.

paths.cmake checks that the linked files are there.

  anchors_test.py               checks the tree
  anchors_test.py --self-test   checks planted pages
"""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors_of(text):
    """As GitHub makes them from headings."""
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", without_code(text), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        number, unique = 0, anchor
        while unique in found:
            number += 1
            unique = f"{anchor}-{number}"
        found.add(unique)
    return found


def find_missing(pages):
    """One line for each link that leads nowhere. `pages`: their texts by path."""
    missing = []
    for page, text in pages.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
            path, _, anchor = target.partition("#")
            if not anchor or "://" in path:
                continue
            to = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if to in pages and anchor not in anchors_of(pages[to]):
                missing.append(f"{page}: links to {target}, which has no such heading")
    return missing


def self_test():
    pages = {
        "README.md": "# A page's `x`\n[a](docs/b.md#two-words) [b](docs/b.md#no)\n",
        "docs/b.md": "## Two words\n[c](../README.md#a-pages-x)\n[d](#two-words) [e](#three)\n"
                     "```sh\n# Three\n```\n## Two words\n[f](#two-words-1) [g](#two-words-2)\n"
                     "[h](https://example.org/#x)\n",
    }
    expected = ["README.md: links to docs/b.md#no, which has no such heading",
                "docs/b.md: links to #three, which has no such heading",
                "docs/b.md: links to #two-words-2, which has no such heading"]
    received = find_missing(pages)
    return [] if received == expected else [f"expected {expected}, received {received}"]


def main(arguments):
    if arguments == ["--self-test"]:
        lines = self_test()
    elif not arguments:
        pages = {}
        for path in ["README.md", *sorted(glob.glob("docs/*.md", root_dir=ROOT))]:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                pages[path] = file.read()
        lines = find_missing(pages)
    else:
        print(__doc__)
        return 2
    if lines:
        print("\n".join(lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

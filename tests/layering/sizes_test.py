#!/usr/bin/env python3
"""Checks the sizes of functions and classes, with Universal Ctags.

A function has at most 60 lines. A class in daemon/ or scheduler/ has at most 30 functions and 15 fields. A struct is a plain
record, to which no limit applies, unless a part of it is private or protected.

    sizes_test.py               checks the tree; exit status 1 with a line for each finding
    sizes_test.py --self-test   checks that oversized code is found
"""
import os
import sys
import tempfile

from tags import full_name, read_tags

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDERS = ("daemon", "scheduler", "transport", "devices", "ops")
FOLDERS_OF_CLASSES = ("daemon/", "scheduler/")
MOST_LINES, MOST_FUNCTIONS, MOST_FIELDS = 60, 30, 15


class Sizes:
    """The members of one class: those that its own body declares."""

    def __init__(self, tag):
        self.tag = tag
        self.functions, self.fields = set(), set()
        self.has_secrets = tag["kind"] == "class"

    def add(self, tag):
        hidden = tag.get("access") in ("private", "protected")
        self.has_secrets = self.has_secrets or hidden
        if tag["kind"] == "member":
            self.fields.add(tag["name"])
        else:
            self.functions.add((tag["name"], tag.get("signature", "")))


def where(tag):
    return f"{tag['path']}:{tag['line']}: {full_name(tag)}"


def measure_classes(tags):
    classes = {}
    for tag in tags:
        if tag["kind"] in ("class", "struct"):
            classes[(tag["path"], full_name(tag))] = Sizes(tag)
    for tag in tags:
        owner = classes.get((tag["path"], tag.get("scope", "")))
        if owner is None or tag["kind"] in ("class", "struct"):
            continue
        body = range(owner.tag["line"], owner.tag.get("end", owner.tag["line"]) + 1)
        if tag["line"] in body:
            owner.add(tag)
    return classes


def findings(root, folders):
    tags = read_tags(root, folders, "fpmcs", "neSa")
    found, functions = [], 0
    for tag in tags:
        if tag["kind"] != "function" or "end" not in tag:
            continue
        functions += 1
        lines = tag["end"] - tag["line"] + 1
        if lines > MOST_LINES:
            found.append(f"{where(tag)}: expected at most {MOST_LINES} lines, received {lines}")
    classes = measure_classes(tags)
    for sizes in classes.values():
        if not sizes.has_secrets or not sizes.tag["path"].startswith(FOLDERS_OF_CLASSES):
            continue
        for what, most, count in (("functions", MOST_FUNCTIONS, len(sizes.functions)),
                                  ("fields", MOST_FIELDS, len(sizes.fields))):
            if count > most:
                found.append(f"{where(sizes.tag)}: expected at most {most} {what}, received {count}")
    return found, functions, len(classes)


def self_test():
    many = lambda text, n: "\n".join(text.replace("#", str(i)) for i in range(n))
    cases = {
        "long.cc": ("void f() {\n" + many("  g(#);", 61) + "\n}\n", "lines"),
        "functions.h": ("class A {\n public:\n" + many("  void f#();", 31) + "\n};\n", "functions"),
        "fields.h": ("class A {\n void f();\n" + many("  int f#_;", 16) + "\n};\n", "fields"),
        "secrets.h": ("struct A {\n private:\n" + many("  int f#_;", 16) + "\n};\n", "fields"),
        "record.h": ("struct A {\n" + many("  int f#;", 40) + "\n};\n", None),
        "short.cc": ("void f() {\n" + many("  g(#);", 58) + "\n}\n", None),
        "limits.h": ("class A {\n public:\n" + many("  void f#();", 30) + "\n private:\n"
                     + many("  int f#_;", 15) + "\n};\n", None),
    }
    for name, (text, expected) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "daemon"))
            with open(os.path.join(folder, "daemon", name), "w", encoding="utf-8") as file:
                file.write(text)
            found, _, _ = findings(folder, ["daemon"])
        right = not found if expected is None else len(found) == 1 and expected in found[0]
        if not right:
            sys.exit(f"sizes: {name}: expected {expected or 'no finding'}, received {found}")
    print(f"{len(cases)} cases are judged as expected")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    found, functions, classes = findings(ROOT, FOLDERS)
    if functions < 1000 or classes < 200:
        sys.exit(f"sizes: expected thousands of functions, ctags found {functions}")
    if found:
        sys.exit("\n".join(sorted(found)))
    print(f"{functions} functions and {classes} classes and structs are within the limits")


main()

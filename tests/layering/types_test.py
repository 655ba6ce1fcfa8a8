#!/usr/bin/env python3
"""Checks that no two types have one full name, with Universal Ctags: C++ forbids it (the rule of one
definition), and no compiler sees it where the two are in different files. A program that has both
may call the functions of the one for the other.

Types of anonymous namespaces, of functions and of other types count for their file alone, and so do
those of programs that stand for themselves (ALONE). Types of tests are compared with those of the
product, since they are in one program.

    types_test.py               checks the tree; exit status 1 with a line for each finding
    types_test.py --self-test   checks that two types of one name are found
"""
import os
import re
import sys
import tempfile

from tags import full_name, read_tags

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDERS = ("daemon", "devices", "ops", "scheduler", "tests", "transport")
# Each of their files is a program or a library of its own.
ALONE = re.compile(r"^tests/(benchmarks|fuzz|cuda|cuda_emulation|gpu_check|guards)/")
# A twin for tests without the device, never in one program with the real one.
TWINS = re.compile(r"^ops/cuda/|^devices/cuda/")


def is_shared(tag):
    """True of a type at the level of a namespace that all files share. To Ctags the body of a
    TEST_CASE is no function, so a type that is indented there is left out by its line."""
    if tag["path"].endswith("_test.cc") and re.match(r"/\^\s", tag.get("pattern", "")):
        return False
    if ALONE.match(tag["path"]) or TWINS.match(tag["path"]) or tag["name"].startswith("__anon"):
        return False
    if tag.get("scopeKind", "namespace") != "namespace" or "__anon" in tag.get("scope", ""):
        return False
    return "templateparam" not in tag


def find_twins(tags):
    places = {}
    for tag in tags:
        if not is_shared(tag):
            continue
        places.setdefault(full_name(tag), {})[tag["path"]] = tag["line"]
    for name, paths in sorted(places.items()):
        if len(paths) > 1:
            yield f"{name}: defined in " + " and ".join(
                f"{path}:{line}" for path, line in sorted(paths.items()))


def self_test():
    with tempfile.TemporaryDirectory() as root:
        for path, text in {
                "daemon/a.h": "namespace leat {\nstruct Twin { int a; };\nstruct One;\n}\n",
                "ops/b.h": "namespace leat {\nclass Twin {\n int b; };\nstruct One { int c; };\n}\n",
                "ops/c.cc": "namespace leat {\nnamespace {\nstruct Twin { int d; };\n}\n}\n",
                "ops/d.h": "namespace leat::other {\nstruct Twin { int e; };\n}\n",
                "ops/e.h": "namespace leat {\nclass Outer { struct Twin { int f; }; };\n}\n",
        }.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        found = list(find_twins(read_tags(root, ("daemon", "ops"), "csgu", "neSaP")))
        expected = ["leat::Twin: defined in daemon/a.h:2 and ops/b.h:2"]
        if found != expected:
            sys.exit(f"types: expected {expected}, received {found}")
    print("two types of one name are found")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    tags = read_tags(ROOT, FOLDERS, "csgu", "neSaP")
    findings = list(find_twins(tags))
    for finding in findings:
        print(finding)
    if findings:
        sys.exit(1)
    print(f"{sum(map(is_shared, tags))} types have names of their own")


main()

#!/usr/bin/env python3
"""Checks the code blocks of the README and the pages against the tree.

  tests     a pattern that a command gives to a program of tests begins as the name of a test
  files     a path below deploy/, configs/ or tests/ is there, and so is a program of the build
  sources   each line of C++ in session.md is in one of the examples that the page names

  commands_test.py               checks the tree
  commands_test.py --self-test   checks planted pages
"""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

EXAMPLES = ["tests/daemon/session_example_test.cc", "docs/examples/fit_a_line.cc",
            "tests/lasting_client/lasting_client.cc"]
# Lines of session.md that stand for those of an example: they show an option.
VARIANTS = ['cluster.address = "127.0.0.1:17461";', "options.save_every = 100;",
            "LEAT_ASSIGN_OR_RETURN(auto session, RemoteSession::open(cluster, {.workers = 2}));"]
PATTERNS = re.compile(r"bin/(\w+)_tests\s+(?:\\\s+)?'([^']*)'")
PATH = re.compile(r"(?:^|[\s=])((?:deploy|configs|tests)/[\w./-]+)")
PROGRAM = re.compile(r"build/release/bin/(\w+)")


def code_of(page):
    """The indented and the fenced lines of a page."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    indented = re.findall(r"^ {4}(.*)$", page, re.MULTILINE)
    return "\n".join(blocks + indented)


def check_tests(page, code, names):
    for folder, patterns in PATTERNS.findall(code):
        for pattern in patterns.split(","):
            start = pattern.removesuffix("*")
            if not any(name.startswith(start) for name in names.get(folder, [])):
                yield f"{page}: no test of {folder}_tests begins with '{start}'"


def check_files(page, code, exists, programs):
    for path in PATH.findall(code):
        if not exists(path):
            yield f"{page}: {path} is not there"
    for program in PROGRAM.findall(code):
        if program not in programs:
            yield f"{page}: there is no program {program}"


def check_sources(page, code, sources):
    lines = {line.strip() for line in "\n".join(sources).split("\n")}
    for line in code.split("\n"):
        if line.strip() and line.strip() not in lines and line.strip() not in VARIANTS:
            yield f"{page}: no example has the line '{line.strip()}'"


def self_test():
    names = {"daemon": ["jobs survive", "a crash of the journal at any moment"]}
    page = ("Text: bin/daemon_tests 'not code'\n\n    LEAT_A=1 build/release/bin/daemon_tests \\\n"
            "      'jobs survive*,a crash of*,nothing*'\n"
            "    deploy/run x.yaml --to=configs/a.yaml\n\n```cpp\nint a;\nint b;\n```\n")
    code = code_of(page)
    received = list(check_tests("p", code, names))
    received += check_files("p", code, lambda path: path == "deploy/run", ["leat"])
    received += check_sources("p", "int a;\n  int b;", ["  int a;\n"])
    expected = ["p: no test of daemon_tests begins with 'nothing'",
                "p: configs/a.yaml is not there",
                "p: there is no program daemon_tests",
                "p: no example has the line 'int b;'"]
    return [] if received == expected else [f"expected {expected}, received {received}"]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def names_of_tests(folder):
    """Of the TEST_CASEs of all files below tests/`folder`; texts in several pieces are joined."""
    names = []
    for path in glob.glob(f"tests/{folder}/**/*.cc", root_dir=ROOT, recursive=True):
        for pieces in re.findall(r'TEST_CASE\(\s*((?:"(?:\\.|[^"\\])*"\s*)+)', read(path)):
            names.append("".join(re.findall(r'"((?:\\.|[^"\\])*)"', pieces)))
    return names


def check_tree():
    folders = ["daemon", "devices", "ops", "scheduler", "transport"]
    names = {folder: names_of_tests(folder) for folder in folders}
    programs = {"leat", "leatd", *(f"{folder}_tests" for folder in folders)}
    for path in glob.glob("tests/benchmarks/*.cc", root_dir=ROOT):
        programs.add(os.path.basename(path).removesuffix(".cc"))
    lines = []
    for page in ["README.md", *sorted(glob.glob("docs/*.md", root_dir=ROOT))]:
        code = code_of(read(page))
        lines += check_tests(page, code, names)
        lines += check_files(page, code, lambda path: os.path.exists(os.path.join(ROOT, path)),
                             programs)
        if page == "docs/session.md":
            lines += check_sources(page, code, [read(example) for example in EXAMPLES])
    return lines


def main(arguments):
    if arguments not in ([], ["--self-test"]):
        print(__doc__)
        return 2
    lines = self_test() if arguments else check_tree()
    if lines:
        print("\n".join(lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

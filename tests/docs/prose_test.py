#!/usr/bin/env python3
"""Checks the English of comments and pages: tests/docs/prose_test.py

It reads the comments of C++, Cap'n Proto, CMake, shell, Python and YAML files and of systemd's
units under the folders of FOLDERS, and the text of all pages. Two rules:

  opening   a sentence names its subject: it does not open with a bare What, Who, Whom, Whose, Where
            or That
  word      some words are not the field's, and some names are riddles (WORDS, NAMES)

Code blocks of pages and text in backticks are no prose. Each finding is one line: the file, the
line, the rule and the text. The exit status is 1 if there is one.

TO_DO lists the folders whose comments are still to be rewritten. A folder in it without a finding
is an error, too, so that the list can only shrink.

  prose_test.py               checks the tree
  prose_test.py --all         prints the findings in the folders of TO_DO as well
  prose_test.py --count       prints how many findings each folder has
  prose_test.py --self-test   checks planted sentences
"""
import collections
import os
import re
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FOLDERS = ["devices", "transport", "ops", "scheduler", "daemon", "tests", "deploy", "configs",
           "docs", ".ci", "README.md", "CMakeLists.txt"]

# The test excuses the C++ and Cap'n Proto files below these folders, one on each line.
TO_DO = """
""".split()
TO_DO_ENDINGS = (".h", ".cc", ".cu", ".capnp")

OPENING = re.compile(
    r"""(?:^|[.!?:;]["')\]*]*\s+)["'(\[*]*((?:What|Who|Whom|Whose|Where|That)\b)""")
WORDS = re.compile(
    r"\b(whom|whoever|whomever|befalls?|befell|befallen|dearest|as\s+long\s+as\s+no)\b",
    re.IGNORECASE)
NAMES = re.compile(r"\b(lets_go|who_is_none|gives_up)\b")

CPP_TOKEN = re.compile(
    r"""R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*\""""
    r"""|'(?:\\[^'\n]+|[^'\\\n])'"""
    r"""|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)""", re.DOTALL)
# The mark of a comment of one line, with the space after it.
SLASHES = re.compile(r"^//[/!]?<?[ \t]*")


def blank(text):
    """`text` as spaces, line by line, so that places stay what they are."""
    return re.sub(r"[^\n]", " ", text)


class Paragraphs:
    """Texts with the line of each of their characters."""

    def __init__(self):
        self.done = []
        self.text = ""
        self.lines = []

    def add(self, text, line):
        """Goes on with the paragraph."""
        text = text.strip()
        if self.text:
            self.text += " "
            self.lines.append(line)
        self.text += text
        self.lines += [line] * len(text)

    def end(self):
        if self.text:
            self.done.append((self.text, self.lines))
        self.text, self.lines = "", []


def add_comments(comments):
    """Paragraphs of (line, column, text, stands alone): lines below each other belong together."""
    paragraphs = Paragraphs()
    last = None
    for line, column, text, alone in comments:
        below = last is not None and line == last[0] + 1 and column == last[1]
        follows = below and (alone or not last[2])
        if not follows or not text.strip() or re.match(r"\s*([*-]|\d+\.)\s|\s{3}", text):
            paragraphs.end()
        if text.strip():
            paragraphs.add(re.sub(r"^\s*([*-]|\d+\.)\s+", "", text), line)
        last = (line, column, alone)
    paragraphs.end()
    return paragraphs.done


def comments_of_cpp(text):
    found = []
    starts = [0] + [match.end() for match in re.finditer("\n", text)]
    line = 0
    for token in CPP_TOKEN.finditer(text):
        while line + 1 < len(starts) and starts[line + 1] <= token.start():
            line += 1
        column = token.start() - starts[line]
        alone = not text[starts[line]:token.start()].strip()
        if token.group("line"):
            found.append((line + 1, column, SLASHES.sub("", token.group()).rstrip(), alone))
        elif token.group("block"):
            for i, part in enumerate(token.group()[2:-2].split("\n")):
                found.append((line + 1 + i, column, re.sub(r"^\s*\*?\s?", "", part), alone))
    return add_comments(found)


def comments_of_hashes(text):
    """Those that begin with '#', at the start of a line or after a space, outside quotes."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#!"):
            continue
        quote = ""
        for column, letter in enumerate(line):
            if quote:
                quote = "" if letter == quote else quote
            elif letter in "\"'" and line.lstrip()[:1] != "#":
                quote = letter
            elif letter == "#" and (column == 0 or line[column - 1].isspace()):
                comment = re.sub(r"^#+ ?", "", line[column:])
                found.append((number, column, comment, not line[:column].strip()))
                break
    return add_comments(found)


def text_of_page(text):
    """Paragraphs of a page: items, headings and the cells of tables are ones of their own."""
    text = re.sub(r"<!--.*?-->", lambda match: blank(match.group()), text, flags=re.DOTALL)
    paragraphs = Paragraphs()
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            paragraphs.end()
        elif fenced or line.startswith("    ") or not line.strip():
            paragraphs.end()
        elif line.startswith("|"):
            paragraphs.end()
            for cell in re.sub(r"`[^`]*`", lambda match: "x" * len(match.group()), line).split("|"):
                paragraphs.add(cell, number)
                paragraphs.end()
        else:
            item = re.match(r"\s*(#+|[*-]|\d+\.)\s+", line)
            if item:
                paragraphs.end()
            paragraphs.add(line[item.end():] if item else line, number)
            if line.startswith("#"):
                paragraphs.end()
    paragraphs.end()
    return paragraphs.done


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def paragraphs_of(path, text):
    """None if `path` is no file that has prose."""
    name = os.path.basename(path)
    if name.endswith((".h", ".cc", ".cu", ".cpp")):
        return comments_of_cpp(text)
    if name.endswith(".md"):
        return text_of_page(text)
    if (name.endswith((".capnp", ".cmake", ".cmake.in", ".sh", ".py", ".yaml", ".service")) or
            name in ("CMakeLists.txt", "Containerfile") or text.startswith("#!")):
        return comments_of_hashes(text)
    return None


def judge(path, text):
    """(line, rule, text) of each finding."""
    found = []
    for paragraph, lines in paragraphs_of(path, text) or []:
        prose = re.sub(r"`[^`]*`", lambda match: "x" * len(match.group()), paragraph)
        for rule, pattern in (("opening", OPENING), ("word", WORDS)):
            for match in pattern.finditer(prose):
                at = match.start(1)
                found.append((lines[at], rule, prose[at:at + 60]))
    if not path.endswith(".md") and os.path.basename(path) != os.path.basename(__file__):
        for number, line in enumerate(text.split("\n"), 1):
            for match in NAMES.finditer(line):
                found.append((number, "word", line.strip()[:60]))
    return sorted(set(found))


def files_below(root):
    for folder in FOLDERS:
        top = os.path.join(root, folder)
        if os.path.isfile(top):
            yield folder
        for path, folders, names in os.walk(top):
            folders.sort()
            for name in sorted(names):
                yield os.path.relpath(os.path.join(path, name), root)


def find_all(root):
    """{path: findings}"""
    result = collections.OrderedDict()
    for path in files_below(root):
        if os.path.islink(os.path.join(root, path)):
            continue
        found = judge(path, read(os.path.join(root, path)))
        if found:
            result[path] = found
    return result


def folder_to_do(path, to_do):
    """The entry that excuses `path`; None if there is none. The longest one that fits holds."""
    if not path.endswith(TO_DO_ENDINGS):
        return None
    fitting = [folder for folder in to_do if path.startswith(folder + "/")]
    return max(fitting, key=len) if fitting else None


def check(root, to_do, everything=False):
    """The lines to print; none if the tree is fine."""
    lines = []
    used = set()
    for path, found in find_all(root).items():
        folder = folder_to_do(path, to_do)
        used.add(folder)
        if folder is None or everything:
            lines += [f"{path}:{line}: {rule}: {text}" for line, rule, text in found]
    for folder in to_do:
        if folder not in used:
            lines.append(f"tests/docs/prose_test.py: {folder} has no finding: take it off TO_DO")
    return lines


def self_test():
    planted = [
        # (file, text, findings as (line, rule))
        ("a.h", "// Reads it.\n// That it fails is told.\nint a;\n", [(2, "opening")]),
        ("a.h", "// It is read by the thread. Who reads it\n// waits.\n", [(1, "opening")]),
        ("a.h", "// The thread that reads\n// That.\n", []),
        ("a.h", "int a;  // What it is\n", [(1, "opening")]),
        ("a.h", "int a;  // the first,\n        // whom it asks\n", [(2, "word")]),
        ("a.h", "/* A block.\n * Where it ends. */\n", [(2, "opening")]),
        ("a.h", 'const char* a = "// What. Who";\n', []),
        ("a.h", "auto a = R\"(x // That \")\";  // Whose it is\n", [(1, "opening")]),
        ("a.h", "// Says `What` and 'what'. The kernel says so: that is all.\n", []),
        ("a.cc", "void lets_go();\nbool gives_up = who_is_none();\n",
         [(1, "word"), (2, "word")]),
        ("a.cc", "// Goes on as long\n// as no value comes.\n", [(1, "word")]),
        ("a.cc", "// 1. Whatever is there. Whether it is. Whereas. Thats.\n", []),
        ("a.capnp", "struct A {  # What it is\n  a @0 :Text;  # \"x\", whoever it is of\n}\n",
         [(1, "opening"), (2, "word")]),
        ("a.cmake", "# Fine.\nset(a \"# What\")  # Where it is\n", [(2, "opening")]),
        ("a.sh", "#!/bin/sh\n# The dearest, first.\n", [(2, "word")]),
        ("tool", "#!/usr/bin/env bash\necho 1 # That is it.\n", [(2, "opening")]),
        ("a.onnxtxt", "# What is no prose\n", []),
        ("a.md", "# What it is\n\nA line. Where two\nlines are.\n",
         [(1, "opening"), (3, "opening")]),
        ("a.md", "* It is so.\n* Who is it\n\n1. That is it.\n", [(2, "opening"), (4, "opening")]),
        ("a.md", "| what | Who |\n| --- | --- |\n| a | b. Whom |\n",
         [(1, "opening"), (3, "opening"), (3, "word")]),
        ("a.md", "Code:\n\n    # What is there. whom\n\n```\nWho is it\n```\n\n`whom` is fine.\n",
         []),
        ("a.md", "**What is it**: nothing befell it.\n", [(1, "opening"), (1, "word")]),
        ("a.md", "<!-- What -->\nFine.\n", []),
    ]
    failures = []
    for path, text, expected in planted:
        received = [(line, rule) for line, rule, _ in judge(path, text)]
        if received != expected:
            failures.append(f"{path}: expected {expected}, received {received} of {text!r}")

    with tempfile.TemporaryDirectory() as root:
        def write(path, text):
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)

        def expect(to_do, expected):
            received = [line.split(": ")[0] for line in check(root, to_do)]
            if received != expected:
                failures.append(f"TO_DO {to_do}: expected {expected}, received {received}")

        write("ops/cpu/a.cc", "// What it is.\n")
        write("ops/cpu/CMakeLists.txt", "# Fine.\n")
        write("ops/data/b.h", "// Fine.\n")
        write("docs/a.md", "Fine.\n")
        expect([], ["ops/cpu/a.cc:1"])
        expect(["ops/cpu"], [])
        expect(["ops"], [])
        expect(["ops/cpu", "ops/data"], ["tests/docs/prose_test.py"])
        write("docs/a.md", "Fine. Who is it\n")
        write("ops/cpu/CMakeLists.txt", "# Whom.\n")
        expect(["ops", "docs"],
               ["ops/cpu/CMakeLists.txt:1", "ops/cpu/CMakeLists.txt:1", "docs/a.md:1",
                "tests/docs/prose_test.py"])
    return failures


def main(arguments):
    if arguments == ["--self-test"]:
        lines = self_test()
    elif arguments == ["--count"]:
        counts = collections.Counter()
        for path, found in find_all(ROOT).items():
            kind = "" if path.endswith(TO_DO_ENDINGS) else " (no C++)"
            counts[os.path.dirname(path) + kind] += len(found)
        print("\n".join(f"{count:5} {folder}" for folder, count in sorted(counts.items())))
        return 0
    elif arguments in ([], ["--all"]):
        lines = check(ROOT, TO_DO, everything=bool(arguments))
    else:
        print(__doc__)
        return 2
    if lines:
        print("\n".join(lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

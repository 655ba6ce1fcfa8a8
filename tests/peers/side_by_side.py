"""Shared by comparisons: processes of peers that measure when they are asked, and the page that the tables go to."""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BINARIES = os.path.join(ROOT, "build", "release", "bin")


class Peer:
    """A script beside this one, which says once that it is ready, and answers every line with what it has measured
    for so many seconds: JSON, a line each. Use as a context: it ends with it."""

    def __init__(self, name, script, arguments, prefix, env=None):
        self.name = name
        command = [*prefix, sys.executable, os.path.join(HERE, script), *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **(env or {})),
                                        stderr=None if os.environ.get("PEER_STDERR") else subprocess.DEVNULL)

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: ended with {self.process.wait()}; PEER_STDERR=1 shows why")
        return json.loads(line)

    def measure(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return self.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def own_environment():
    """This one, without the libraries of a virtual environment: they are not for leat."""
    return {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}


def usable_cores(text):
    """"0,1", or all that this process may use."""
    return [int(c) for c in text.split(",")] if text else sorted(os.sched_getaffinity(0))


def pinned(cores):
    return ["taskset", "-c", ",".join(map(str, cores))]


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "unknown")


def write_page(name, text):
    """Puts `text` between the marks <!-- name --> and <!-- end name --> of docs/performance.md."""
    path = os.path.join(ROOT, "docs", "performance.md")
    begin, end = f"<!-- {name} -->", f"<!-- end {name} -->"
    with open(path, encoding="utf-8") as f:
        page = f.read()
    before, rest = page.split(begin)
    after = rest.split(end)[1]
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"{before}{begin}\n{text}\n{end}{after}")

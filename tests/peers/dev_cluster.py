"""A `leatd dev` with two workers, for the checks of what people and programs see of a cluster."""
import json
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOB = ROOT / "configs/jobs/fashion_mnist_mlp.yaml"


class Cluster:
    """A `leatd dev`, and the commands for it."""

    def __init__(self, binaries):
        self.leat = f"{binaries}/leat"
        self.process = subprocess.Popen(
            [f"{binaries}/leatd", "dev", "--workers", "2", "--threads", "1", "--listen",
             "127.0.0.1:0", "--http", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
        self.master = self.http = ""
        for line in self.process.stderr:
            self.master = self.master or "".join(re.findall(r"the master at (\S+) as", line)[:1])
            self.http = self.http or "".join(re.findall(r"http://127\.0\.0\.1:\d+", line)[:1])
            if self.master and self.http:
                return
        sys.exit("leatd dev: expected the addresses of the master and of its page, received none")

    def run(self, *arguments):
        done = subprocess.run([self.leat, *arguments, "--master", self.master], check=True,
                              stdout=subprocess.PIPE, text=True)
        return done.stdout

    def submit(self, *settings):
        flags = [flag for each in settings for flag in ("--set", each)]
        return self.run("submit", str(JOB), *flags).split()[0]

    def job(self, name):
        with urllib.request.urlopen(f"{self.http}/api/v1/jobs/{name}", timeout=10) as answer:
            return json.load(answer)

    def wait(self, name, state):
        until = time.monotonic() + 120
        while self.job(name)["state"] != state:
            if time.monotonic() > until:
                sys.exit(f"{name}: expected {state} within 2 min, it is {self.job(name)['state']}")
            time.sleep(0.2)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)

#!/usr/bin/env python3
"""Opens the page of a master with 10,000 jobs that have ended, and the page of the steps of a job
whose graph has 20,000 nodes, in Chromium: each has to load within a second, and keeps axe-core's
rules. Needs what pages_in_chromium.py needs.

    large_pages.py BIN [JOBS [LAYERS]]

BIN is the folder of leat and leatd. Exit status 1 if a page breaks a rule.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

from axe_core_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from pages_in_chromium import check

TOKEN = "a token of forty characters for this test"
WIDTH = 8
DATA = ("{format: synthetic, rows: 64, columns: {features: {shape: %d}, "
        "labels: {dtype: int64, distribution: integers, high: 4}}}" % WIDTH)
JOB = f"""version: 1
name: NAME
model: {{graph: deep.onnxtxt}}
data: {{train: {DATA}}}
loss: cross_entropy
optimizer: {{name: sgd, learning_rate: 0.001}}
global_batch_size: 16
epochs: 1000000
num_workers: 1
"""


def deep_graph(layers):
    """A network of dense layers, each of which gives several nodes of the training."""
    lines = [f'  h{i + 1} = leat.Dense <units = {WIDTH}, activation = "relu"> (h{i})'
             for i in range(layers)]
    return ('<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>\n'
            f"deep (float[N,{WIDTH}] h0) => (float[N,4] logits) {{\n" + "\n".join(lines) +
            f"\n  logits = leat.Dense <units = 4> (h{layers})\n}}\n")


@contextlib.contextmanager
def daemon(*command):
    """Runs a daemon and yields the addresses that it tells when it is ready."""
    read, write = os.pipe()
    process = subprocess.Popen([*command, "--ready-fd", str(write), "--log-level", "error"],
                               pass_fds=[write])
    os.close(write)
    try:
        with os.fdopen(read) as ready:
            yield json.loads(ready.readline())
    finally:
        process.terminate()
        process.wait(timeout=60)


def post(url, body=None):
    request = urllib.request.Request(
        url, method="POST", data=json.dumps(body).encode() if body else b"",
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def end_jobs(http, count):
    """Submits jobs that nobody can run, and cancels them."""
    graph = deep_graph(1)

    def one(i):
        job = post(f"{http}/api/v1/jobs",
                   {"job": JOB.replace("NAME", f"job-{i}"), "files": {"deep.onnxtxt": graph}})
        post(f"{http}/api/v1/jobs/{job['id']}/cancel")

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(count)))


def start_deep_job(leat, master, http, folder, layers):
    path = pathlib.Path(folder)
    (path / "deep.onnxtxt").write_text(deep_graph(layers), encoding="utf-8")
    (path / "job.yaml").write_text(JOB.replace("NAME", "deep"), encoding="utf-8")
    job = subprocess.run([leat, "submit", str(path / "job.yaml"), "--master", master], check=True,
                         stdout=subprocess.PIPE, text=True).stdout.split()[0]
    until = time.monotonic() + 300
    while time.monotonic() < until:
        with urllib.request.urlopen(f"{http}/api/v1/jobs/{job}", timeout=10) as answer:
            facts = json.load(answer)
        if facts["state"] == "RUNNING" and facts["progress"]["step"] > 3:
            return job
        if facts["state"] not in ("QUEUED", "STARTING", "RUNNING"):
            sys.exit(f"{job}: {facts['state']}: {facts['reason']}")
        time.sleep(0.5)
    sys.exit(f"{job}: expected its first steps within 5 min")


def open_page(browser, url, http):
    page = browser.new_context(bypass_csp=True, viewport={"width": 1300, "height": 900}).new_page()
    wrong, took = check(page, Axe(), url, http)
    rows = page.evaluate("document.querySelectorAll('tbody tr').length")
    print(f"{url[len(http):]}: {took} ms, {rows} rows, "
          f"{len(page.content()) / 1e6:.1f} MB, {len(wrong)} findings")
    for each in wrong[:10]:
        print(f"  {each}")
    return len(wrong)


def main():
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    binaries = sys.argv[1]
    count, layers = [int(n) for n in (sys.argv[2:] + ["10000", "2900"][len(sys.argv) - 2:])]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        token = pathlib.Path(folder) / "token"
        token.write_text(TOKEN, encoding="utf-8")
        token.chmod(0o400)
        with daemon(f"{binaries}/leatd", "master", "--listen", "127.0.0.1:0", "--http",
                    "127.0.0.1:0", "--state-dir", f"{folder}/master", "--set",
                    f"http_write_token_file={token}", "--set",
                    f"retention.max_jobs={2 * count}") as addresses:
            http, master = "http://" + addresses["http"], addresses["listen"]
            begun = time.monotonic()
            end_jobs(http, count)
            print(f"{count} jobs submitted and cancelled in {time.monotonic() - begun:.0f} s")
            with daemon(f"{binaries}/leatd", "worker", "--master", master, "--name", "w0",
                        "--http", "off", "--data", "127.0.0.1:0", "--threads", "1", "--state-dir",
                        f"{folder}/worker"):
                job = start_deep_job(f"{binaries}/leat", master, http, folder, layers)
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"),
                                                     args=["--no-sandbox"])
                broken = sum(open_page(browser, http + path, http)
                             for path in ("/", "/?show=ended", f"/jobs/{job}/steps"))
                browser.close()
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Loads the status endpoint of a master while a job trains, and measures both.

    tests/benchmarks/status_load.py [--build build/release] [--requests 500] [--streams 200]
                                    [--seconds 10] [--rounds 3]

A master and a worker of one thread run on free ports of loopback, and a job trains there. Each round
counts the job's steps for some seconds without load, and as long with it: so many event streams
that stay open, and so many requests each second, spread over 16 connections and over the paths of
the API. It prints the quantiles of the time from a request to the end of its answer, how late the
requests were sent, the events that came, and the steps per second with load and without, in turn.
Load and master share the machine's cores with the job; so the ratio is a lower bound.
"""
import argparse
import asyncio
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONNECTIONS = 16


def start(build, folder, arguments):
    read, write = os.pipe()
    process = subprocess.Popen([build / "bin/leatd", *arguments, "--ready-fd", str(write)],
                               pass_fds=[write], cwd=folder, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as ready:
        return process, json.loads(ready.readline())


async def read_answer(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head[9:12])


class Load:
    """Requests and streams until `end`, a time of the event loop."""

    def __init__(self, http, job, rate, streams):
        self.host, self.port = http.rsplit(":", 1)
        self.paths = ["/api/v1/jobs", "/api/v1/nodes", "/api/v1/cluster", f"/api/v1/jobs/{job}",
                      "/metrics", f"/api/v1/jobs/{job}/curves", "/"]
        self.rate, self.streams = rate, streams
        self.times, self.late, self.events, self.bad = [], [], 0, 0

    def request(self, path):
        return f"GET {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n\r\n".encode()

    async def requests(self, number, end):
        reader, writer = await asyncio.open_connection(self.host, self.port)
        clock = asyncio.get_running_loop().time
        period = CONNECTIONS / self.rate
        due = clock() + period * number / CONNECTIONS
        count = number
        while due < end:
            await asyncio.sleep(max(0, due - clock()))
            began = clock()
            self.late.append(began - due)
            writer.write(self.request(self.paths[count % len(self.paths)]))
            self.bad += await read_answer(reader) != 200
            self.times.append(clock() - began)
            count += CONNECTIONS
            due += period
        writer.close()

    async def stream(self, end):
        reader, writer = await asyncio.open_connection(self.host, self.port)
        clock = asyncio.get_running_loop().time
        writer.write(self.request("/api/v1/events"))
        try:
            while clock() < end:
                line = await asyncio.wait_for(reader.readline(), end - clock())
                if not line:
                    self.bad += 1  # a stream stays open
                    break
                self.events += line.startswith(b"event: ")
        except asyncio.TimeoutError:
            pass
        writer.close()

    async def run(self, seconds):
        end = asyncio.get_running_loop().time() + seconds
        await asyncio.gather(*(self.stream(end) for _ in range(self.streams)),
                             *(self.requests(i, end) for i in range(CONNECTIONS)))


def steps_of(http, job):
    with urllib.request.urlopen(f"http://{http}/api/v1/jobs/{job}", timeout=10) as answer:
        return json.load(answer)["progress"]["step"], time.monotonic()


def rate_during(http, job, work):
    before = steps_of(http, job)
    work()
    after = steps_of(http, job)
    return (after[0] - before[0]) / (after[1] - before[1])


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(http, job, arguments):
    with_load, without, load = [], [], None
    times, late, events, bad = [], [], 0, 0
    for _ in range(arguments.rounds):
        without.append(rate_during(http, job, lambda: time.sleep(arguments.seconds)))
        load = Load(http, job, arguments.requests, arguments.streams)
        with_load.append(rate_during(http, job, lambda: asyncio.run(load.run(arguments.seconds))))
        times += load.times
        late += load.late
        events += load.events
        bad += load.bad
    print(f"{len(times)} requests in {arguments.rounds} x {arguments.seconds} s, {bad} bad; "
          f"{arguments.streams} streams with {events} events")
    for share in (0.5, 0.9, 0.99, 0.999):
        print(f"  p{100 * share:g}: {1000 * quantile(times, share):.2f} ms"
              f", sent {1000 * quantile(late, share):.2f} ms late")
    ratio = statistics.median(a / b for a, b in zip(with_load, without))
    print(f"steps/s: {statistics.median(without):.1f} without load, "
          f"{statistics.median(with_load):.1f} with it; median ratio {ratio:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    with tempfile.TemporaryDirectory() as folder:
        master, ready = start(build, folder, ["master", "--listen", "127.0.0.1:0", "--http",
                                              "127.0.0.1:0", "--set", f"state_dir={folder}/master"])
        worker, _ = start(build, folder, ["worker", "--master", ready["listen"], "--set", "name=w",
                                          "--set", "http=off", "--set", "data=127.0.0.1:0", "--set",
                                          "local_paths=true", "--set", "threads=1", "--set",
                                          f"state_dir={folder}/w"])
        try:
            job = subprocess.run(
                [build / "bin/leat", "submit", "--master", ready["listen"], "--workers", "1",
                 ROOT / "configs/jobs/fashion_mnist_mlp.yaml", "--set", "epochs=100000"],
                check=True, capture_output=True, text=True, timeout=60).stdout.strip()
            deadline = time.monotonic() + 60
            while steps_of(ready["http"], job)[0] < 50 and time.monotonic() < deadline:
                time.sleep(0.2)
            measure(ready["http"], job, arguments)
        finally:
            for process in (worker, master):
                process.terminate()
                process.wait(timeout=30)


if __name__ == "__main__":
    main()

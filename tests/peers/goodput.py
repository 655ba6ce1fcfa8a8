#!/usr/bin/env python3
"""The useful part of training when workers are killed: leat beside torchrun with DistributedDataParallel, in one run.

Each trains the same CNN with two workers of one thread, on cores of its own, both at the same time. A process that
trains is killed (SIGKILL) at the same moments on both sides, at random, one each EVERY seconds on average. Batches are
chosen so that a step takes 50 ms on either side. The goodput of a side is

    steps that it is further at the end * time of an undisturbed step / time that went by

where the time of an undisturbed step is that of the same run, but for a while after each fault: what disturbs the
machine disturbs both sides. torchrun's script saves as often as is best for it (Young's rule, from what
saving takes); leat writes a checkpoint as often.
"""
import argparse
import contextlib
import datetime
import json
import math
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

import numpy as np

from leat_job import DATA, RESCALE, fashion_mnist
from side_by_side import BINARIES, HERE, ROOT, cpu_model, own_environment, pinned, usable_cores, write_page

WORKERS = 2
LOOK = 0.1  # seconds between looks at how far a side is


def wait_until(what, seconds, look=0.05):
    """The value of `what()` once it is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(look)
    raise SystemExit(f"waited {seconds} s in vain for {what.__doc__ or what}")


class Side:
    """A way to train. `start` begins a job and returns; `step` says how far it is; `kill` kills a trainer."""

    def __init__(self, folder, cores):
        self.folder, self.prefix = folder, pinned(cores)

    def measure_step(self, batch, steps=400):
        """Seconds of a step of a short job, its beginning aside."""
        self.start(batch, steps, 0)
        first = last = None
        deadline = time.monotonic() + 120
        while (last is None or last[1] < steps) and time.monotonic() < deadline:
            time.sleep(0.01)
            now = time.monotonic(), self.step()
            if now[1] >= 50 and (last is None or now[1] > last[1]):
                first, last = first or now, now
        self.end()
        if last is None or last[1] == first[1]:
            raise SystemExit(f"{self.name}: a job of {steps} steps did not get far")
        return (last[0] - first[0]) / (last[1] - first[1])

    def find_batch(self, seconds):
        """A batch whose step takes about so long."""
        batch = 256
        for _ in range(2):
            took = self.measure_step(batch)
            batch = max(4, round(batch * seconds / took / 4) * 4)
        return batch


class Torchrun(Side):
    name = "torchrun + DDP"

    def __init__(self, folder, cores):
        super().__init__(folder, cores)
        self.process = None
        images, labels = fashion_mnist()
        os.makedirs(folder, exist_ok=True)
        np.save(os.path.join(folder, "images.npy"), images)
        np.save(os.path.join(folder, "labels.npy"), labels.astype(np.int64))

    def start(self, batch, steps, save_every):
        for name in ("saved.pt", "progress", *(f"rank-{i}.pid" for i in range(WORKERS))):
            with contextlib.suppress(FileNotFoundError):
                os.remove(os.path.join(self.folder, name))
        log = open(os.path.join(self.folder, "log"), "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [*self.prefix, sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORKERS),
             "--max-restarts", "100000", "--monitor-interval", "0.1", os.path.join(HERE, "goodput_ddp.py"), self.folder,
             "--batch", str(batch), "--steps", str(steps), "--save-every", str(save_every)],
            # A store that trainers share with their agent keeps the addresses of those that are dead.
            env=dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1"),
            stdout=log, stderr=log)
        log.close()

    def read(self):
        try:
            with open(os.path.join(self.folder, "progress"), "rb") as f:
                step, saving = struct.unpack("<Qd", f.read(16).ljust(16, b"\0"))
        except FileNotFoundError:
            return 0, 0.0
        return step, saving

    def step(self):
        return self.read()[0]

    def kill(self, victim):
        try:
            with open(os.path.join(self.folder, f"rank-{victim}.pid"), encoding="utf-8") as f:
                os.kill(int(f.read()), signal.SIGKILL)
            return True
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return False  # it is being started again

    def end(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def close(self):
        self.end()


class Leat(Side):
    name = "Leat"

    def __init__(self, folder, cores, binaries):
        super().__init__(folder, cores)
        self.binaries, self.daemons, self.job, self.steps = binaries, [], None, 0
        os.makedirs(folder, exist_ok=True)
        self.daemon("master", ["master", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--set", "chaos=true"])
        self.master, self.http = self.ready("master", "listen"), self.ready("master", "http")
        for i in range(WORKERS):
            self.daemon(f"worker-{i}", ["worker", "--name", f"worker-{i}", "--master", self.master, "--http", "off",
                                        "--data", "127.0.0.1:0", "--threads", "1", "--set", f"datasets.data={DATA}"])

    def daemon(self, name, arguments):
        ready = os.path.join(self.folder, f"{name}.ready")
        log = open(os.path.join(self.folder, f"{name}.log"), "w", encoding="utf-8")
        self.daemons.append(subprocess.Popen(
            [*self.prefix, os.path.join(ROOT, "deploy", "keep-running"), ready, "0.2", os.path.join(self.binaries, "leatd"),
             *arguments, "--state-dir", os.path.join(self.folder, name)], env=own_environment(), stdout=log, stderr=log))
        log.close()
        wait_until(lambda: os.path.exists(ready) and os.path.getsize(ready) > 0, 20)

    def ready(self, name, key):
        with open(os.path.join(self.folder, f"{name}.ready"), encoding="utf-8") as f:
            return json.load(f)[key]

    def leat(self, *arguments):
        done = subprocess.run([os.path.join(self.binaries, "leat"), *arguments, "--master", self.master],
                              env=own_environment(), capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise SystemExit(f"leat {' '.join(arguments)}: {done.stderr}")
        return done.stdout.strip()

    def start(self, batch, steps, save_every, faults=()):
        """`faults`: (seconds, victim), which the job brings upon itself: they count from its beginning."""
        path = os.path.join(self.folder, "job.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"""version: 1
name: goodput
model: {{graph: {os.path.join(HERE, "graphs", "cnn.onnxtxt")}}}
data:
  root: data
  train: {{format: idx, features: train-images-idx3-ubyte.gz, labels: train-labels-idx1-ubyte.gz}}
  rescale: {RESCALE}
loss: cross_entropy
optimizer: {{name: sgd, learning_rate: 0.05, momentum: 0.9}}
global_batch_size: {batch}
steps: {steps}
seed: 11
shards: {WORKERS}
num_workers: {WORKERS}
{f"checkpoint: {{every_steps: {save_every}, keep: 2}}" if save_every else ""}
""")
        chaos = [a for when, victim in faults for a in ("--chaos", f"kill=runner:{victim}@time={round(when * 1000)}ms")]
        self.job, self.steps = self.leat("submit", path, *chaos), steps

    def view(self):
        with urllib.request.urlopen(f"http://{self.http}/api/v1/jobs/{self.job}", timeout=10) as answer:
            return json.load(answer)

    def step(self):
        view = self.view()
        if view["state"] in ("FAILED", "CANCELLED"):
            raise SystemExit(f"Leat: the job is {view['state']}: {view['reason']}")
        return self.steps if view["state"] == "SUCCEEDED" else view["progress"]["step"] or 0

    def end(self):
        if self.job is not None and self.view()["state"] not in ("SUCCEEDED", "FAILED", "CANCELLED"):
            self.leat("cancel", self.job)
        self.job = None

    def close(self):
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self.daemons:
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def schedule(seed, seconds, every):
    """[(when, victim)]: the time between two is random, `every` on average, and at least a tenth of that."""
    rng, when, out = random.Random(seed), 0.0, []
    while True:
        when += every * (0.1 + rng.expovariate(1 / 0.9))
        if when > seconds - every * 0.1:
            return out
        out.append((when, rng.randrange(WORKERS)))


class Course:
    """How far a side was at which time, and what follows from it."""

    def __init__(self):
        self.seen = []

    def look(self, side):
        self.seen.append((time.monotonic(), side.step()))

    def step_at(self, when):
        return max((step for at, step in self.seen if at <= when), default=0)

    def evaluate(self, faults, every):
        """Once it has begun: (seconds of an undisturbed step, steps, seconds). `faults`: when they came."""
        begin, end = next(at for at, step in self.seen if step > 0), self.seen[-1][0]
        window, calm = every / 20, every / 5
        steps = seconds = 0
        at = begin
        while at + window <= end:
            if not any(at - calm < fault < at + window + window / 2 for fault in faults):
                steps += self.step_at(at + window) - self.step_at(at)
                seconds += window
            at += window
        return seconds / max(1, steps), self.step_at(end) - self.step_at(begin), end - begin


def disturb(args, sides, batches, every):
    """{side: Course} of a run of both at once."""
    seconds = args.minutes * 60
    faults = schedule(args.seed, seconds, args.every)
    print(f"faults: {', '.join(f'{when:.0f} s (worker {victim})' for when, victim in faults)}", flush=True)
    leat, torchrun = sides
    torchrun.start(batches[1], 10**9, every)
    wait_until(lambda: torchrun.step() > 20, 60)
    leat.start(batches[0], 10**7, every, faults)
    wait_until(lambda: leat.step() > 0, 60)
    courses, left, missed = {side: Course() for side in sides}, list(faults), 0
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        if left and time.monotonic() >= begin + left[0][0]:
            missed += not torchrun.kill(left.pop(0)[1])
        for side in sides:
            courses[side].look(side)
        time.sleep(LOOK)
    view = leat.view()
    for lost in view["history"]:
        print(f"  leat: step {lost['stopped_at']}: noticed after {lost['detection_seconds']} s, went on after "
              f"{lost['recovery_seconds']} s from {lost['source']}, {lost['steps_recomputed']} steps again", flush=True)
    print(f"  torchrun: {missed} of {len(faults)} found nobody, who was being started", flush=True)
    return courses, [begin + when for when, _ in faults], view["lost_epochs"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", default=BINARIES, help="where leat and leatd are (default: build/release/bin)")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--every", type=float, default=95, help="seconds from fault to fault, on average")
    parser.add_argument("--step-ms", type=float, default=50)
    parser.add_argument("--seed", type=int, default=1, help="of the times and the victims")
    parser.add_argument("--batches", default="", help="LEAT,TORCH: not to look for them")
    parser.add_argument("--save-every", type=int, default=0, help="steps (default: the best for torchrun)")
    parser.add_argument("--cores", default="", help="four: two for each (default: the first ones allowed)")
    parser.add_argument("--keep", default="", help="the folder of all logs, which stays")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    args = parser.parse_args()
    cores = usable_cores(args.cores)
    halves = (cores[:2], cores[2:4]) if len(cores) >= 4 else (cores, cores)
    folder = args.keep or tempfile.mkdtemp(prefix="leat-goodput-")
    if args.keep and os.path.exists(args.keep):
        raise SystemExit(f"--keep: expected a new folder, {args.keep} is there")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # nothing is left running
    load, sides = [os.getloadavg()[0]], []
    try:
        sides.append(Leat(os.path.join(folder, "leat"), halves[0], args.binaries))
        sides.append(Torchrun(os.path.join(folder, "torchrun"), halves[1]))
        batches = ([int(b) for b in args.batches.split(",")] if args.batches
                   else [side.find_batch(args.step_ms / 1e3) for side in sides])
        every = args.save_every
        if not every:
            sides[1].start(batches[1], 60, 10)
            wait_until(lambda: sides[1].step() >= 60, 60)
            saving = sides[1].read()[1]
            sides[1].end()
            every = max(1, round(math.sqrt(2 * saving * args.every) / (args.step_ms / 1e3)))
            print(f"torchrun's script saves in {saving * 1e3:.1f} ms: best every {every} steps", flush=True)
        print(f"batches: {', '.join(f'{side.name} {batch}' for side, batch in zip(sides, batches))}", flush=True)
        courses, faults, lost = disturb(args, sides, batches, every)
        load.append(os.getloadavg()[0])
    finally:
        for side in sides:
            side.close()
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    rows = []
    for side, batch in zip(sides, batches):
        each, steps, seconds = courses[side].evaluate(faults, args.every)
        goodput = steps * each / seconds
        rows.append(f"| {side.name} | {batch} | {each * 1e3:.1f} ms | {steps} | {seconds:.0f} s | "
                    f"{(1 - goodput) * seconds / max(1, len(faults)):.2f} s | {goodput:.1%} |")
    text = "\n".join([
        f"{cpu_model()}, {len(cores)} cores, {datetime.date.today()}, load {min(load):.1f} to {max(load):.1f}; "
        f"{len(faults)} faults in {args.minutes:g} minutes, one each {args.every:g} s (seed {args.seed}), of which Leat met {lost}; "
        f"saved every {every} steps:", "",
        "| | batch | an undisturbed step | steps | in | lost by a fault | goodput |",
        "| --- | --- | --- | --- | --- | --- | --- |", *rows])
    print(f"\n{text}")
    if args.write:
        write_page("goodput", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The step path of leat beside TensorFlow's gRPC sessions, Gloo, bare sockets and memcpy, in one run.

Everything, leat's runners and the peers' servers, is pinned to the same two cores. Rounds are interleaved: what
disturbs the machine disturbs all of them. Prints medians over the rounds, how many times faster leat is, and the bar
that this is to clear.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys

from side_by_side import BINARIES, Peer, cpu_model, own_environment, pinned, usable_cores, write_page

MB, MIB = 10**6, 2**20
TENSORFLOW, GLOO = "TensorFlow", "Gloo"
SCRIPTS = {TENSORFLOW: "step_path_tensorflow.py", GLOO: "step_path_gloo.py"}


class Case:
    """A joint measurement: options of cluster_benchmark, and the peer with its arguments; `rows` of the table
    come of it."""

    def __init__(self, name, options, peer, arguments, rows, quick=False):
        self.name, self.options, self.peer, self.arguments = name, options, peer, arguments
        self.rows, self.quick = rows, quick


class Row:
    """`key` picks leat's times: (measure, mode, ranks, bytes). `against` has what it is compared with, for each
    transport: the peer, or such a key of a bare measure. `bars` are the least ratios."""

    def __init__(self, title, key, against, bars=(None, None)):
        self.title, self.key, self.against, self.bars = title, key, against, bars


def size_text(size):
    for unit, name in ((MIB, "MiB"), (MB, "MB")):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def null_case(workers):
    def row(mode, title, bars):
        return Row(f"null step, W = {workers}, {title}", ("null", mode, workers, 4), [TENSORFLOW] * 2, bars)

    return Case(f"null step, W = {workers}", ["null", "--ranks", workers], TENSORFLOW, ["null", workers],
                [row("free", "free-running", (20 if workers == 1 else 40, 100)),
                 row("interactive", "interactive", (4, 4))], quick=workers <= 2)


def hop_case():
    def raw(mode):
        return [("raw_hop", mode, 2, 8)] * 2

    key = ("hop", "free", 2, 4)
    return Case("dependent hop", ["hop,raw", "--bytes", 0], TENSORFLOW, ["hop"],
                [Row("dependent hop", key, [TENSORFLOW] * 2),
                 Row("dependent hop; a socket's, blocking", key, raw("blocking, two cores"), (0.5, 0.5)),
                 Row("dependent hop; a socket's, spinning", key, raw("spinning, two cores"))], quick=True)


def transfer_case(size):
    key, text = ("transfer", "free", 2, size), size_text(size)
    bare = [("raw_transfer", "blocking", 2, size), ("memcpy", "", 1, size)]
    return Case(f"transfer of {text}", ["transfer,raw", "--bytes", size], TENSORFLOW, ["transfer", size],
                [Row(f"transfer of {text}", key, [TENSORFLOW] * 2),
                 Row(f"transfer of {text}; bare TCP, memcpy", key, bare, (0.8, 0.6) if size == 100 * MB else (None, None))],
                quick=size == MB)


def server_case(size):
    bars = (1.8, 5) if size == 100 * MB else (None, None)
    title = f"parameter-server step, {size_text(size)} each way"
    return Case(title, ["server", "--bytes", size], TENSORFLOW, ["server", size],
                [Row(title, ("server", "free", 1, size), [TENSORFLOW] * 2, bars)])


def sparse_case(size):
    title = f"sparse step, 32 rows of a table of {size_text(size)}"
    return Case(title, ["sparse", "--bytes", size], TENSORFLOW, ["sparse", size],
                [Row(title, ("sparse", "free", 1, size), [TENSORFLOW] * 2, (15, 15))])


def all_reduce_case(ranks, size):
    title = f"all-reduce of {size_text(size)} on {ranks} ranks"
    large = size == 64 * MIB

    def row(mode, what):
        return Row(f"{title}{what}", ("all_reduce", mode, ranks, size), [GLOO] * 2, (None, 4 if large else None))

    rows = [row("pieces", f", in {4 * ranks} pieces")] if size > 4 else []
    return Case(title, ["all_reduce", "--ranks", ranks, "--bytes", size], GLOO, [ranks, size],
                [row("whole", ""), *rows], quick=size == MIB and ranks == 2)


def all_cases():
    small = Row("100 small tensors", ("small", "free", 2, 6400), [TENSORFLOW] * 2)
    return [*map(null_case, (1, 2, 4, 8)), hop_case(), Case(small.title, ["small"], TENSORFLOW, ["small"], [small]),
            *map(transfer_case, (MB, 100 * MB)), *map(server_case, (MB, 10 * MB, 100 * MB)),
            *map(sparse_case, (100 * MB, 1000 * MB)),
            *(all_reduce_case(ranks, size) for ranks in (2, 4) for size in (4, MIB, 64 * MIB))]


def leat_us(args, case, prefix):
    """{(measure, mode, ranks, bytes, transport): us} of one round."""
    command = [*prefix, args.benchmark, "--measures", *map(str, case.options), "--rounds", "3",
               "--seconds", str(args.seconds / 4)]
    done = subprocess.run(command, env=own_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(m["measure"], m["mode"], m["ranks"], m["bytes"], m["transport"]): m["us"] for m in lines}


def measure(args, case, prefix):
    """Medians over the rounds, as leat_us() has them; the peer's under its name."""
    times = {}
    with Peer(case.peer, SCRIPTS[case.peer], case.arguments, prefix) as peer:
        peer.read()
        for _ in range(args.rounds):
            for key, us in [*leat_us(args, case, prefix).items(), (case.peer, peer.measure(args.seconds)["us"])]:
                times.setdefault(key, []).append(us)
    return {key: statistics.median(us) for key, us in times.items()}


def us_of(times, key, transport):
    if isinstance(key, str):
        return times[key]
    at = next(found for found in times if isinstance(found, tuple) and found[:4] == key
              and found[4] in (transport, "tcp" if key[0].startswith("raw") else "", ""))
    return times[at]


def time_text(us):
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if us >= unit:
            return f"{us / unit:.3g} {name}"
    return f"{us:.3g} µs"


def cells(row, times):
    """Of one row: the peer's time or times, then leat's time, the ratio and the bar by transport."""
    others = [us_of(times, row.against[i], transport) for i, transport in enumerate(("tcp", "shm"))]
    out = [" / ".join(dict.fromkeys(time_text(us) for us in others))]
    for transport, other, bar in zip(("tcp", "shm"), others, row.bars):
        us = us_of(times, row.key, transport)
        ratio = other / us
        text = f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
        if bar:
            text += f" (bar {bar}{'' if ratio >= bar else ', missed'})"
        out += [time_text(us), text]
    return out


def table(rows):
    lines = ["| measure | other | Leat, tcp | other / Leat | Leat, shm | other / Leat |", "| --- | --- | --- | --- | --- | --- |"]
    return "\n".join(lines + [f"| {title} | {' | '.join(row)} |" for title, row in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", default=os.path.join(BINARIES, "cluster_benchmark"))
    parser.add_argument("--cores", default="", help="the two to pin to (default: the last ones allowed)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of a measure in a round")
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--quick", action="store_true", help="few cases, one short round: to see that it works")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.seconds = 1, 0.3
    prefix = pinned(usable_cores(args.cores)[-2:])
    rows, load = [], [os.getloadavg()[0]]
    for case in all_cases():
        if args.only not in case.name or (args.quick and not case.quick):
            continue
        times = measure(args, case, prefix)
        load.append(os.getloadavg()[0])
        for row in case.rows:
            rows.append((row.title, cells(row, times)))
            print(f"{row.title:48s} {' | '.join(f'{cell:>20s}' for cell in rows[-1][1])}", flush=True)
    where = (f"{cpu_model()}, two cores of {os.cpu_count()}, {datetime.date.today()}, "
             f"load {min(load):.1f} to {max(load):.1f}; medians of {args.rounds} rounds:")
    text = f"{where}\n\n{table(rows)}"
    print(f"\n{text}")
    if args.write:
        write_page("step path", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

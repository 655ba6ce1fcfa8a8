#!/usr/bin/env python3
"""The step path of TensorFlow's distributed runtime (gRPC sessions): one measure, whenever it is asked.

Usage: step_path_tensorflow.py null WORKERS | hop | small | transfer BYTES | server BYTES | sparse BYTES
The servers are processes of this script on loopback, and end with it. Answers every line on stdin (seconds) with
{"us": the median of a step's times}; of a hop, with what one hop costs.
"""
import ctypes
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")


def serve(cluster, job, index):
    import tensorflow.compat.v1 as tf1
    config = tf1.ConfigProto(intra_op_parallelism_threads=2, inter_op_parallelism_threads=2)
    tf1.train.Server(tf1.train.ClusterSpec(json.loads(cluster)), job_name=job, task_index=index, config=config).join()


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_addresses(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    return addresses


class Cluster:
    """Workers and one parameter server. Use as a context."""

    def __init__(self, workers):
        addresses = free_addresses(workers + 1)
        spec = {"ps": addresses[:1], "worker": addresses[1:]}
        self.target = "grpc://" + addresses[1]
        self.servers = [
            subprocess.Popen([sys.executable, __file__, "--serve", json.dumps(spec), job, str(i)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=end_with_parent)
            for job, tasks in spec.items() for i in range(len(tasks))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.kill()
        for server in self.servers:
            server.wait()


def median_us(call, seconds):
    for _ in range(3):
        call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def on(task, job="worker"):
    import tensorflow as tf
    return tf.device(f"/job:{job}/task:{task}/cpu:0")


def variable(tf1, name, shape, ones=False):
    initializer = tf1.ones_initializer() if ones else tf1.zeros_initializer()
    return tf1.get_variable(name, shape, tf1.float32, initializer, use_resource=True)


def null_step(tf1, workers):
    """The server's scalar goes to every worker, and what comes of it is added to it."""
    with on(0, "ps"):
        v = variable(tf1, "v", [])
    updates = []
    for w in range(workers):
        with on(w):
            y = v.read_value() * 1.0 + 1.0
        with on(0, "ps"):
            updates.append(v.assign_add(y, read_value=False))
    return tf1.group(*updates)


def chain(tf1, adds):
    y = tf1.placeholder_with_default(1.0, [])
    for i in range(adds):
        with on(i % 2):
            y = y + 1.0
    return y.op


def small_values(tf1):
    ends = []
    for i in range(100):
        with on(0):
            value = variable(tf1, f"v{i}", [16], ones=True).read_value()
        with on(1):
            ends.append((value + 1.0).op)
    return tf1.group(*ends)


def transfer(tf1, elements):
    with on(0, "ps"):
        v = variable(tf1, "v", [elements], ones=True)
    with on(0):
        return (tf1.identity(v.read_value())[0] + 1.0).op


def server_step(tf1, elements):
    """The variable goes to the worker; then its gradient goes back, and is added."""
    with on(0, "ps"):
        v = variable(tf1, "v", [elements])
    with on(0):
        gradient = variable(tf1, "gradient", [elements], ones=True)
        first = tf1.identity(v.read_value())[0] + 1.0
        with tf1.control_dependencies([first]):
            sent = tf1.identity(gradient.read_value())
    with on(0, "ps"):
        return v.assign_add(sent, read_value=False)


def sparse_step(tf1, rows):
    """32 rows of 400 bytes go to the worker; then their gradient goes back, and is added to them."""
    ids = [(j * 7919 + 1) % rows for j in range(32)]
    with on(0, "ps"):
        v = variable(tf1, "table", [rows, 100])
    with on(0):
        ids = tf1.get_variable("ids", initializer=ids, use_resource=True).read_value()
        gradient = variable(tf1, "gradient", [32, 100], ones=True)
    with on(0, "ps"):
        read = tf1.gather(v, ids)  # of the variable itself: the table is not read
    with on(0):
        first = tf1.identity(read)[0, 0] + 1.0
        with tf1.control_dependencies([first]):
            sent = tf1.identity(gradient.read_value())
    with on(0, "ps"):
        return v.scatter_sub(tf1.IndexedSlices(sent, ids)).op


HOPS = 32
MEASURES = {  # name: (workers, graphs)
    "null": lambda n: (n, [lambda tf1: null_step(tf1, n)]),
    "hop": lambda _: (2, [lambda tf1: chain(tf1, 2), lambda tf1: chain(tf1, 2 + HOPS)]),
    "small": lambda _: (2, [small_values]),
    "transfer": lambda n: (1, [lambda tf1: transfer(tf1, n // 4)]),
    "server": lambda n: (1, [lambda tf1: server_step(tf1, n // 4)]),
    "sparse": lambda n: (1, [lambda tf1: sparse_step(tf1, n // 400)]),
}


def main():
    if sys.argv[1] == "--serve":
        return serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    workers, builds = MEASURES[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    with Cluster(workers) as cluster:
        import tensorflow.compat.v1 as tf1
        tf1.disable_eager_execution()
        sessions, steps = [], []
        for build in builds:
            with tf1.Graph().as_default():
                step = build(tf1)
                sessions.append(tf1.Session(cluster.target))
                sessions[-1].run(tf1.global_variables_initializer())
                steps.append(sessions[-1].make_callable(step))
                steps[-1]()
        print(json.dumps({"ready": tf1.__version__}), flush=True)
        for line in sys.stdin:
            us = [median_us(step, float(line) / len(steps)) for step in steps]
            print(json.dumps({"us": us[0] if len(us) == 1 else (us[1] - us[0]) / HOPS}), flush=True)
        for session in sessions:  # while its servers are there
            session.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compares the key-value store with redis-server: requests per second and processor time per request.

Requires redis-server and redis-benchmark, and the store built with `cargo build --release -p phalanx-kv`.
The servers run one at a time in turn, so that noise affects all of them. Prints medians, and the ratio of
each arm to redis-server, taken round by round.
"""

import argparse
import os
import re
import socket
import statistics
import subprocess
import time

KV = "target/release/kv"
ARMS = {
    "redis-server": ["redis-server", "--save", "", "--appendonly", "no"],
    "redis-server --io-threads 2": ["redis-server", "--save", "", "--appendonly", "no",
                                    "--io-threads", "2"],
    "kv --processors 1": [KV, "--processors", "1"],
    "kv --processors 2": [KV, "--processors", "2"],
}
TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid):
    """User and system time of all threads of a process."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def wait_for(server, port):
    """Waits until the server accepts connections."""
    for _ in range(200):
        if server.poll() is not None:
            raise SystemExit(f"{server.args} ended with {server.returncode}")
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"{server.args} does not accept")


def measure(command, port, test, pipeline, requests):
    """Requests per second, and microseconds of the server's processor time per request."""
    where = ["--listen", f"127.0.0.1:{port}"] if command[0] == KV else ["--port", str(port)]
    server = subprocess.Popen(command + where, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(server, port)
        benchmark = ["redis-benchmark", "-p", str(port), "-t", test, "-c", "50", "-r", "100000",
                     "-P", str(pipeline), "--csv", "-n"]
        subprocess.run(benchmark + [str(requests // 5)], check=True, capture_output=True, timeout=300)  # warm up
        before = processor_seconds(server.pid)
        output = subprocess.run(benchmark + [str(requests)], check=True, capture_output=True, text=True,
                                timeout=300)
        spent = processor_seconds(server.pid) - before
        rate = float(re.findall(r'"([\d.]+)"', output.stdout.splitlines()[-1])[0])
        return rate, 1e6 * spent / requests
    finally:
        server.kill()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=200_000, help="without pipelining; 8 times with")
    arguments = parser.parse_args()
    print("| test | server | requests/s | over redis | µs of processor each | over redis |\n|---|---|---|---|---|---|")
    for test, pipeline in [("get", 1), ("set", 1), ("get", 16), ("set", 16), ("mset", 1)]:
        requests = arguments.requests * (8 if pipeline > 1 else 1)
        results = {arm: [] for arm in ARMS}
        for number in range(arguments.rounds):
            for place, (arm, command) in enumerate(ARMS.items()):
                # Below the kernel's range of ephemeral ports.
                port = 17_000 + os.getpid() % 100 * 100 + number * len(ARMS) + place
                results[arm].append(measure(command, port, test, pipeline, requests))
        redis = results["redis-server"]
        for arm, figures in results.items():
            rate, spent = (statistics.median(column) for column in zip(*figures))
            ratios = [statistics.median(a[i] / b[i] for a, b in zip(figures, redis)) for i in (0, 1)]
            name = f"{test}, {pipeline} at once" if pipeline > 1 else test
            print(f"| {name} | `{arm}` | {rate:,.0f} | {ratios[0]:.2f} | {spent:.2f} | {ratios[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()

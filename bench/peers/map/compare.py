#!/usr/bin/env python3
"""Compares a small key-value server on Phalanx with the same on tokio: processor time per request.

Requires redis-benchmark, and the servers built with `cargo build --release` in this directory. All servers run
concurrently and are loaded in turn, in short slices. The time is user and system time of all threads of a server.
Prints the medians, and the median over the rounds of the ratio to the best arm of tokio.
"""

import argparse
import os
import re
import statistics
import subprocess

SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "target/release/phalanx-map")
ARMS = {
    "tokio, mutex": ["tokio-mutex"],
    "tokio, partitioned": ["tokio-partitioned"],
    "phalanx, mutex": ["phalanx-mutex"],
    "phalanx, mutex, spin 0": ["phalanx-mutex", "0"],
    "phalanx, partitioned": ["phalanx-partitioned"],
    "phalanx, partitioned, spin 0": ["phalanx-partitioned", "0"],
    "phalanx, migrating": ["phalanx-migrating"],
    "tokio, mutex, one thread": ["MAP_PROCESSORS=1", "tokio-mutex"],
    "phalanx, mutex, one thread": ["MAP_PROCESSORS=1", "phalanx-mutex"],
}


def processor_seconds(pid):
    """Run time of all threads of a process, in seconds."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as times:
            total += int(times.read().split()[0])
    return total / 1e9


def ask(port, connections, requests):
    subprocess.run(["redis-benchmark", "-p", str(port), "-t", "get", "-c", str(connections), "-r", "100000",
                    "-n", str(requests), "--csv"], check=True, capture_output=True, timeout=120)


def start(program, arguments):
    variables = dict(argument.split("=") for argument in arguments if "=" in argument)
    arguments = [program] + [argument for argument in arguments if "=" not in argument]
    server = subprocess.Popen(arguments, env=os.environ | variables, stdout=subprocess.PIPE, text=True)
    return server, int(re.search(r":(\d+)$", server.stdout.readline().strip()).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default=SERVER)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=20_000, help="in a slice")
    parser.add_argument("--connections", type=int, nargs="+", default=[4, 64])
    arguments = parser.parse_args()
    servers = {arm: start(arguments.server, options) for arm, options in ARMS.items()}
    try:
        print("| connections | server | µs of processor each | over tokio's best |\n|---|---|---|---|")
        for connections in arguments.connections:
            spent = {arm: [] for arm in ARMS}
            for number in range(-1, arguments.rounds):  # the first one warms up
                for arm in list(ARMS)[:: 1 if number % 2 else -1]:
                    server, port = servers[arm]
                    before = processor_seconds(server.pid)
                    ask(port, connections, arguments.requests)
                    if number >= 0:
                        spent[arm].append(1e6 * (processor_seconds(server.pid) - before) / arguments.requests)
            tokio = [arm for arm in ARMS if arm.startswith("tokio") and not arm.endswith("one thread")]
            best = min(tokio, key=lambda arm: statistics.median(spent[arm]))
            for arm, times in spent.items():
                ratio = statistics.median(a / b for a, b in zip(times, spent[best]))
                print(f"| {connections} | {arm} | {statistics.median(times):.2f} | {ratio:.2f} |", flush=True)
    finally:
        for server, _ in servers.values():
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()

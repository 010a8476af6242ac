# SPDX-License-Identifier: GPL-3.0-or-later
"""What stops under each engine: births of threads and children, signals, libraries that come and
go. By turns untraced and watched."""

import dataclasses
import statistics
import subprocess

from processes import Failed, Lines, Memleax, Process

ROUNDS = 5

PYTHON = """
import os, subprocess, sys, time
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    what, number = line.split()
    begin = time.monotonic_ns()
    for _ in range(int(number)):
        subprocess.run(["/bin/true"])
    print(what, number, "ns_each", (time.monotonic_ns() - begin) // int(number), flush=True)
"""
BASH = """
echo ready $$
while read -r what number; do
    begin=${EPOCHREALTIME/./}
    for ((i = 0; i < number; ++i)); do /bin/true; done
    echo "$what" "$number" ns_each $(((${EPOCHREALTIME/./} - begin) * 1000 / number))
done
"""


class Teller(Process):
    """It does so many of something, and tells how long each took."""

    def __init__(self, command):
        super().__init__(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lines = Lines(self._process.stdout)
        self._lines.wait_for("ready", 10)

    def ns_each(self, what, number):
        self._process.stdin.write(f"{what} {number}\n".encode())
        self._process.stdin.flush()
        return float(self._lines.next(120).split()[3])


# What it is, the program (None: births_target), its word for it, and how many in a round.
KINDS = (("a thread that allocates once", None, "threads", 4000),
         ("a fork", None, "forks", 1500),
         ("posix_spawn of /bin/true", None, "spawns", 500),
         ("a signal", None, "signals", 20000),
         ("dlopen and dlclose", None, "libraries", 400),
         ("/bin/true in bash", ["bash", "-c", BASH], "commands", 500),
         ("subprocess.run in Python", ["python3", "-c", PYTHON], "commands", 500))


@dataclasses.dataclass
class Cost:
    """Medians of the rounds, in ns."""
    alone: float
    watched: float


def measure(bench, kind):
    _, program, what, number = kind
    alone, watched = [], []
    with Teller(program or [bench.births_target]) as teller:
        for _ in range(ROUNDS):
            alone.append(teller.ns_each(what, number))
            with Memleax(bench.memleax, teller.pid):
                teller.ns_each(what, max(number // 10, 20))  # stacks are seen, jumps are there
                watched.append(teller.ns_each(what, number))
    if not all(alone):
        raise Failed("it took no time")
    return Cost(statistics.median(alone), statistics.median(watched))

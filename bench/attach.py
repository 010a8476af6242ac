# SPDX-License-Identifier: GPL-3.0-or-later
"""For how long a process stands still while memleax attaches to it."""

import dataclasses
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from processes import Failed, Lines, Memleax, Process, Target

ROUNDS = 5
SETTLE = 0.3  # seconds to go on looking after `watching`


@dataclasses.dataclass
class Attach:
    """The best round of several: what else runs on the machine makes gaps too."""
    gap_ns: float
    idle_gap_ns: float
    seconds_to_watching: float


def attach_and_leave(bench, pid, times):
    with Memleax(bench.memleax, pid) as memleax:
        times.append(memleax.seconds_to_watching)
        time.sleep(SETTLE)


def best_of(bench, pid, longest_gap_ns):
    """longest_gap_ns(f) calls f and returns the longest gap meanwhile."""
    times, gaps, idle = [], [], []
    for _ in range(ROUNDS):
        gaps.append(longest_gap_ns(lambda: attach_and_leave(bench, pid, times)))
        idle.append(longest_gap_ns(lambda: time.sleep(times[-1] + SETTLE)))
    return Attach(min(gaps), min(idle), min(times))


def small_program(bench):
    with Target(bench.target) as target:
        return best_of(bench, target.pid, target.longest_gap_ns)


class PingClient(Process):
    """This file as a program: asks redis for as long as its stdin is open."""

    def __init__(self, path):
        super().__init__([sys.executable, __file__, path], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
        self._lines = Lines(self._process.stdout)
        self._lines.wait_for("started", 10)

    def longest_ns(self):
        self._process.stdin.close()
        self._process.stdin = None
        return float(self._lines.wait_for("max_ns", 10).split()[1])


def ping_until_stdin_closes(path):
    import select
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    print("started", flush=True)
    longest = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        begin = time.monotonic_ns()
        server.sendall(b"PING\r\n")
        server.recv(64)
        longest = max(longest, time.monotonic_ns() - begin)
    print(f"max_ns {longest}", flush=True)


def redis(bench):
    program = shutil.which("redis-server")
    if not program:
        raise Failed("not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "socket")
        command = [program, "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no",
                   "--dir", folder]
        with Process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            deadline = time.monotonic() + 10
            while not os.path.exists(path):
                if time.monotonic() > deadline:
                    raise Failed("does not start")
                time.sleep(0.05)

            def longest_gap_ns(while_doing):
                with PingClient(path) as client:
                    while_doing()
                    return client.longest_ns()
            return best_of(bench, server.pid, longest_gap_ns)


NODE_PROGRAM = """
const fs = require('fs');
const { performance } = require('perf_hooks');
// Busy for so many seconds at a time; one line of input for each.
const input = Buffer.alloc(64);
for (let read; (read = fs.readSync(0, input, 0, 64, null)) > 0;) {
  const end = performance.now() + 1000 * parseFloat(input.toString('utf8', 0, read));
  fs.writeSync(1, 'started\\n');
  let longest = 0;
  for (let last = performance.now(), now; last < end; last = now) {
    now = performance.now();
    if (now - last > longest) longest = now - last;
  }
  fs.writeSync(1, 'max_ms ' + longest + '\\n');
}
"""


class BusyNode(Process):
    """Runs NODE_PROGRAM."""

    SECONDS = 2.0

    def __init__(self, program):
        super().__init__([program, "-e", NODE_PROGRAM], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
        self._lines = Lines(self._process.stdout)

    def longest_gap_ns(self, while_doing):
        self._process.stdin.write(f"{self.SECONDS}\n".encode())
        self._process.stdin.flush()
        self._lines.wait_for("started", 20)
        while_doing()
        return float(self._lines.wait_for("max_ms", self.SECONDS + 20).split()[1]) * 1e6


def node(bench):
    program = shutil.which("node")
    if not program:
        raise Failed("not installed")
    with BusyNode(program) as process:
        process.longest_gap_ns(lambda: None)  # compiled by now
        return best_of(bench, process.pid, process.longest_gap_ns)


if __name__ == "__main__":
    ping_until_stdin_closes(sys.argv[1])

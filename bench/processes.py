# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes that the benchmarks start: each is ended, by its pid, when its `with` block is left."""

import os
import select
import signal
import subprocess
import time


class Failed(Exception):
    """A measurement that could not be made, and why."""


class Lines:
    """Reads lines from a pipe, with a deadline."""

    def __init__(self, pipe):
        self._fd = pipe.fileno()
        self._rest = b""
        self.seen = []

    def next(self, timeout):
        deadline = time.monotonic() + timeout
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._fd], [], [], left)[0]:
                raise Failed(f"no answer within {timeout:.0f} s")
            data = os.read(self._fd, 65536)
            if not data:
                raise Failed("ended: " + (" | ".join(self.seen[-3:]) or "without a word"))
            self._rest += data
        line, self._rest = self._rest.split(b"\n", 1)
        text = line.decode(errors="replace")
        self.seen.append(text)
        return text

    def wait_for(self, word, timeout):
        deadline = time.monotonic() + timeout
        while True:
            line = self.next(max(0.0, deadline - time.monotonic()))
            if word in line:
                return line


class Process:
    """A child process. Leaving the `with` block ends it: politely, then for good."""

    END_SIGNAL = signal.SIGTERM

    def __init__(self, command, **options):
        self._process = subprocess.Popen(command, **options)
        self.pid = self._process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self, timeout=20.0):
        if self._process.poll() is None:
            self._process.send_signal(self.END_SIGNAL)
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
        return self._process.returncode

    def resident_bytes(self):
        with open(f"/proc/{self.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        raise Failed("no VmRSS")


class Target(Process):
    """bench/alloc_target.cpp, started by itself or by `tool`, a command that takes one."""

    def __init__(self, program, threads=1, tool=()):
        super().__init__([*tool, program, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lines = Lines(self._process.stdout)
        self._lines.wait_for("ready", 60)

    def begin(self, line):
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, line, timeout=120.0):
        self.begin(line)
        return self._lines.next(timeout).split()

    def ns_per_pair(self, pairs, timeout=120.0, shape="plain"):
        return float(self.ask(f"pairs {pairs} {shape}", timeout)[3])

    def hold(self, blocks, timeout=600.0):
        return float(self.ask(f"live {blocks}", timeout)[3])

    def longest_gap_ns(self, while_doing):
        self.ask("gap start")
        while_doing()
        return float(self.ask("gap stop")[2])


class Memleax(Process):
    """memleax watching a process, with its default engine if none is named; `seconds_to_watching`
    from its start."""

    END_SIGNAL = signal.SIGINT

    def __init__(self, program, pid, *options, output="/dev/null"):
        begin = time.monotonic()
        super().__init__([program, "-t", "100000", "-e", "1000", "-q", "-o", output, *options,
                          str(pid)],
                         stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            Lines(self._process.stderr).wait_for("watching", 60)
        except Failed:
            self.end()
            raise
        self.seconds_to_watching = time.monotonic() - begin

# SPDX-License-Identifier: GPL-3.0-or-later
"""How much slower a program gets that touches so many pages a second, watched by --track faults, and by perf.

By its own CPU time, which other load on the machine changes least: what the kernel does for a sample
is in it. memleax's own work is on another CPU, if there is one.
"""

import json
import os
import shutil
import signal
import statistics
import subprocess
import tempfile

from processes import Failed, Lines, Memleax, Process

# Pages a second, and what is wanted: at most so many times the untraced program's time.
RATES = ((10_000, 1.1), (100_000, 2))
ROUNDS = 5
SECONDS = 1


class FaultTarget(Process):
    """bench/fault_target.cpp"""

    def __init__(self, program):
        super().__init__([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lines = Lines(self._process.stdout)
        self._lines.wait_for("ready", 60)

    def seconds(self, pages, spins):
        self._process.stdin.write(f"touch {pages} {spins}\n".encode())
        self._process.stdin.flush()
        return int(self._lines.next(300).split()[2]) / 1e9  # of CPU time

    def best(self, pages, spins):
        return min(self.seconds(pages, spins) for _ in range(ROUNDS))

    def spins_for(self, rate):
        """So much computing between two pages that it touches so many a second."""
        pages = 6400
        bare = self.best(pages, 0) / pages
        spin = (self.best(pages, 20_000) / pages - bare) / 20_000
        return max(0, round((1 / rate - bare) / spin))


class Perf(Process):
    END_SIGNAL = signal.SIGINT


def perf(target, pages, spins, folder):
    """With perf record; what it says of lost samples."""
    if not shutil.which("perf"):
        raise Failed("perf is not installed")
    command = ["perf", "record", "-q", "-e", "page-faults", "-c", "1", "--call-graph", "dwarf", "-o",
               os.path.join(folder, "perf.data"), "-p", str(target.pid)]
    log = os.path.join(folder, "log")
    with open(log, "wb") as output, \
            Perf(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output):
        target.seconds(pages, spins)  # it has attached some time in here
        return target.best(pages, spins)


def measure(bench, rate):
    """Seconds untraced, watched by us, watched by perf (None), and how many samples we lost of how many."""
    pages = rate * SECONDS
    with tempfile.TemporaryDirectory() as folder, \
            FaultTarget(os.path.join(os.path.dirname(bench.target), "fault_target")) as target:
        spins = target.spins_for(rate)
        report = os.path.join(folder, "report")
        alone, watched = [], []
        for _ in range(ROUNDS):  # by turns: the machine is not the same from minute to minute
            alone.append(target.seconds(pages, spins))
            with Memleax(bench.memleax, target.pid, "--track", "faults", "-F", "json", output=report):
                watched.append(target.seconds(pages, spins))
        with open(report, encoding="utf-8") as file:
            seen = json.load(file)["page_faults"]
        try:
            theirs = perf(target, pages, spins, folder)
        except Failed:
            theirs = None
        ratio = statistics.median(w / a for w, a in zip(watched, alone))
        return min(alone), min(watched), theirs, ratio, seen["lost"], seen["minor"]

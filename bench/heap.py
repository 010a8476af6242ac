# SPDX-License-Identifier: GPL-3.0-or-later
"""--leak-check: how long a process stands still for it, and what it takes of time and memory."""

import dataclasses
import json
import os
import statistics
import subprocess
import time

from processes import Failed, Target

ROUNDS = 5


@dataclasses.dataclass
class Look:
    pause_s: float
    blocks: int
    elapsed_s: float
    cpu_s: float
    peak_bytes: int


def look(bench, pid, snapshot="copy", watching=()):
    """By itself, or at the end of a watching with these options."""
    begin = time.monotonic()
    with subprocess.Popen([bench.memleax, "--leak-check", "--snapshot", snapshot, "-F", "json",
                           *watching, str(pid)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        text = process.stdout.read()
        errors = process.stderr.read().decode(errors="replace")
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    elapsed = time.monotonic() - begin
    if not text or "is not forked" in errors:
        raise Failed(errors.strip())
    found = json.loads(text)["leak_check"]
    if not found["complete"]:
        raise Failed(found["why"])
    if found["definite"]["blocks"] != 0:
        raise Failed(f"{found['definite']['blocks']} blocks are called lost")
    blocks = sum(found[name]["blocks"] for name in ("definite", "indirect", "possible", "reachable"))
    return Look(found["pause_s"], blocks, elapsed, usage.ru_utime + usage.ru_stime,
                usage.ru_maxrss * 1024)


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@dataclasses.dataclass
class Pauses:
    copy_s: float
    fork_s: float
    alone_s: float  # a fork of the same heap, and nothing else
    watched_copy_s: float
    watched_fork_s: float


def pause(bench, size):
    """How long it stands still for each kind of snapshot, and for a fork alone, by turns; medians."""
    with Target(bench.heap_target) as target:
        target.ask(f"heap {size}")
        target.ask("busy")
        watching = ("-t", "0.1")
        alone, copies, forks, watched_copies, watched_forks = [], [], [], [], []
        for _ in range(ROUNDS):
            alone.append(float(target.ask("fork")[1]))
            copies.append(look(bench, target.pid).pause_s)
            forks.append(look(bench, target.pid, "fork").pause_s)
            watched_copies.append(look(bench, target.pid, "copy", watching).pause_s)
            watched_forks.append(look(bench, target.pid, "fork", watching).pause_s)
        return Pauses(*(statistics.median(times) for times in
                        (copies, forks, alone, watched_copies, watched_forks)))


def analysis(bench, shape, blocks):
    """One look at so many blocks, and what of our memory at its peak is not the copy of theirs."""
    with Target(bench.heap_target) as target:
        target.ask(f"{shape} {blocks}", 600)
        copied = resident_bytes(target.pid)
        result = look(bench, target.pid)
        return result, max(0, result.peak_bytes - copied) / result.blocks

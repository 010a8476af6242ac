# SPDX-License-Identifier: GPL-3.0-or-later
"""How long memleax takes to attach to many threads, all of them busy or all asleep, and to leave."""

import contextlib
import dataclasses
import os
import signal
import statistics
import time

from processes import Failed, Memleax, Target

ROUNDS = 7
WATCHED = 0.3  # seconds in between
DEADLINE = 60.0


@dataclasses.dataclass
class Times:
    attach_s: float
    leave_s: float
    worst_leave_s: float


def is_traced(threads):
    def one_is(thread):
        with open(f"{thread}/status") as status:
            return "TracerPid:\t0\n" not in status.read()
    return any(one_is(thread) for thread in threads)


@contextlib.contextmanager
def before_others():
    """A hundred busy threads would keep us from looking at the clock. Without privileges they do."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except PermissionError:
        pass
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, usual)


def seconds_to_leave(memleax, pid):
    """Who sleeps is let go of at the very end, but for one that is borrowed: of two one is not."""
    tasks = f"/proc/{pid}/task"
    threads = [f"{tasks}/{tid}" for tid in sorted(os.listdir(tasks), key=int)[:2]]
    with before_others():
        begin = time.monotonic()
        os.kill(memleax.pid, signal.SIGINT)
        while is_traced(threads):
            if time.monotonic() - begin > DEADLINE:
                raise Failed("does not leave")
            time.sleep(0.0005)
        return time.monotonic() - begin


def measure(bench, threads, busy):
    attach, leave = [], []
    with Target(bench.target, threads) as target:
        if busy:
            target.begin("pairs 1000000000")
        for _ in range(ROUNDS):
            with Memleax(bench.memleax, target.pid) as memleax:
                attach.append(memleax.seconds_to_watching)
                time.sleep(WATCHED)
                leave.append(seconds_to_leave(memleax, target.pid))
                os.kill(memleax.pid, signal.SIGKILL)  # its report would take as long as it takes
    return Times(statistics.median(attach), statistics.median(leave), max(leave))

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures memleax and prints a table; started by bench/run.sh.

Every figure stands beside something measured in the same run, by turns with it, because what a
ptrace stop costs differs between machines, and on one machine from minute to minute. The median of
the rounds' ratios counts; "best" is the best round of one side against the best of the other. Where
the two are far apart the scheduler has put tracer and target on one processor in some rounds and on
two in others (a bare stop may cost four times as much then), or the machine was busy.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys

import attach
import births
import daemons
import faults
import heap
import leave
import others
import shapes
from processes import Failed, Memleax, Target

ROUNDS = 15
STOPS_PER_PAIR = 3  # malloc's entry, its return, free's entry


def say(text=""):
    print(text, flush=True)


def row(what, figure, measure="", ratio=None, bound=None, relation="<="):
    ratio_text = "" if ratio is None else f"{ratio:6.2f}"
    bound_text = "" if bound is None else f"{relation} {bound:g}"
    say(f"  {what:<44} {figure:>14}  {measure:<34} {ratio_text:>6}  {bound_text}")


def us(nanoseconds):
    return f"{nanoseconds / 1000:.2f} us"


class Bench:
    def __init__(self, folder):
        self.memleax = os.path.join(folder, "memleax")
        self.bare_stops = os.path.join(folder, "bench", "bare_stops")
        self.target = os.path.join(folder, "bench", "alloc_target")
        self.heap_target = os.path.join(folder, "bench", "heap_target")
        self.births_target = os.path.join(folder, "bench", "births_target")

    def bare_stop_ns(self, threads, stops=4000):
        """One round. (fork and seize are outside of what it times)"""
        text = subprocess.run(
            [self.bare_stops, "--rounds", "1", "--stops", str(stops), str(threads)],
            check=True, capture_output=True, text=True).stdout
        return float(re.search(r"ns_per_stop (\d+)", text)[1])

    def compare(self, target, threads, rounds=ROUNDS):
        """ns of a pair and of a bare stop, by turns: the best of each, and the median ratio."""
        # Many short rounds, to catch one in which nothing else ran; but with many threads a phase
        # that is too short measures how they start.
        pairs = 1500 if threads == 1 else 6000 // threads
        target.ns_per_pair(pairs)  # stacks are seen, rules are cached
        pair, bare = [], []
        for _ in range(rounds):
            bare.append(self.bare_stop_ns(threads))
            pair.append(target.ns_per_pair(pairs))
        ratios = [p / (STOPS_PER_PAIR * b) for p, b in zip(pair, bare)]
        return min(pair), min(bare), statistics.median(ratios)


def cost_of_a_pair(bench):
    say("\nA malloc/free pair, eight frames deep, stacks seen before; beside three bare ptrace stops")
    for threads in (1, 4, 16, 64):
        with Target(bench.target, threads) as target, \
                Memleax(bench.memleax, target.pid, "--engine", "int3"):
            pair, bare, median = bench.compare(target, threads)
        row(f"{threads} thread{'s' if threads > 1 else ''}", us(pair),
            f"3 stops: {us(STOPS_PER_PAIR * bare)} (best: {pair / (STOPS_PER_PAIR * bare):.2f})",
            median, 1.3)


def cost_of_live_blocks(bench, full):
    # Four threads: with one, a stop costs once or four times as much, as the scheduler has it.
    threads = 4
    say(f"\nThe same with many live blocks, {threads} threads; beside what it costs with 1000")
    counts = [1_000, 100_000, 1_000_000] + ([5_000_000] if full else [])
    with Target(bench.target, threads) as target, \
            Memleax(bench.memleax, target.pid, "--engine", "int3") as memleax:
        first_cost = first_memory = None
        for count in counts:
            target.hold(count, timeout=1800)
            memory = memleax.resident_bytes()
            pair, _, cost = bench.compare(target, threads)  # in bare stops: machines change speed
            if first_cost is None:
                first_cost, first_memory = cost, memory
                row(f"{count} live blocks", us(pair), f"{cost:.2f} times 3 bare stops")
                row("    memory of memleax", f"{memory / 1e6:.1f} MB", "the fixed part")
                continue
            row(f"{count} live blocks", us(pair), f"{cost:.2f} times 3 bare stops",
                cost / first_cost, 1.2)
            row("    memory of memleax", f"{memory / 1e6:.1f} MB", "bytes for each live block",
                (memory - first_memory) / (count - counts[0]), 64)
    if not full:
        say("  (5000000 live blocks: with --full; a few minutes)")


def stop_at_attach(bench):
    say("\nThe attach: for how long a busy thread stands still at most; beside the same without us")
    for name, measure in (("small program", lambda: attach.small_program(bench)),
                          ("redis-server, one client", lambda: attach.redis(bench)),
                          ("node", lambda: attach.node(bench))):
        try:
            result = measure()
        except Failed as reason:
            row(name, "skipped", str(reason))
            continue
        row(name, f"{result.gap_ns / 1e6:.2f} ms", f"without: {result.idle_gap_ns / 1e6:.2f} ms")
        row("    until `watching`", f"{result.seconds_to_watching * 1e3:.0f} ms")


def beside_others(bench):
    say("\nBeside others, on the same program with one thread; ratio to memleax --engine int3 in the same run")
    with Target(bench.target) as target:
        alone = min(target.ns_per_pair(200_000) for _ in range(3))
        with Memleax(bench.memleax, target.pid, "--engine", "int3"):
            ours, _, _ = bench.compare(target, 1, rounds=3)
        left = min(target.ns_per_pair(200_000) for _ in range(3))
    row("nobody watches", us(alone), "", alone / ours)
    row("memleax --engine int3", us(ours), "", 1.0)
    row("memleax has left", us(left), "", left / ours)
    for name, measure in (("memleax",
                           lambda program: others.memleax(program, bench.memleax)),
                          ("heaptrack --pid", others.heaptrack),
                          ("valgrind, which starts the program", others.valgrind),
                          ("bpftrace: 3 uprobes, frame pointers", others.bpftrace),
                          ("gdb: break malloc, bt 8, continue", others.gdb)):
        try:
            pair = measure(bench.target)
        except Failed as reason:
            row(name, "skipped", str(reason))
            continue
        row(name, us(pair), "", pair / ours)


def without_stops(bench):
    say("\nThe inline engine: what it adds to a pair; beside what heaptrack adds")
    for name, shape, threads, most_ns, most_ratio in shapes.SHAPES:
        alone, ours = shapes.measure(bench, shape, threads)
        wanted = "" if most_ns is None else f", wanted {most_ns}"
        try:
            theirs = shapes.measure_heaptrack(bench, shape, threads)
        except Failed as reason:
            row(name, f"{ours - alone:.0f} ns", f"untraced {alone:.0f}{wanted}; {reason}")
            continue
        row(name, f"{ours - alone:.0f} ns",
            f"untraced {alone:.0f}{wanted}; heaptrack {theirs - alone:.0f}",
            (ours - alone) / (theirs - alone), most_ratio)


def programs_under_load(bench):
    say("\nPrograms under load: what they still do while watched, as a share of the untraced")
    for name, service, least in daemons.SERVICES:
        try:
            result = daemons.measure(bench, service)
        except Failed as reason:
            row(name, "skipped", str(reason))
            continue
        row(name, f"{result.untraced:.0f}/s", f"heaptrack: {result.heaptrack}", result.watched, least, ">=")
        row("    calls that stopped, of all", f"{result.stopped}", f"of {result.calls}")


def many_threads(bench):
    say("\nThe whole attach and the whole leave with many threads; median, and the worst leave")
    for threads, busy in ((16, True), (100, True), (1000, False)):
        times = leave.measure(bench, threads, busy)
        row(f"{threads} threads, {'busy' if busy else 'asleep'}",
            f"{times.attach_s * 1000:.0f} ms", f"leave: {times.leave_s * 1000:.0f} ms, "
            f"at most {times.worst_leave_s * 1000:.0f} ms")


def births_and_signals(bench):
    say("\nWhat stops under each engine: how long one takes, as a ratio to the untraced")
    for kind in births.KINDS:
        try:
            cost = births.measure(bench, kind)
        except Failed as reason:
            row(kind[0], "skipped", str(reason))
            continue
        row(kind[0], us(cost.watched), f"untraced: {us(cost.alone)}", cost.watched / cost.alone)


def looks_at_the_heap(bench, is_full):
    say("\n--leak-check --snapshot fork: how long a process with a busy thread stands still; beside it "
        "--snapshot copy, and a fork alone of the same heap")
    for megabytes in (10, 100, 1000) + ((4000,) if is_full else ()):
        try:
            pauses = heap.pause(bench, megabytes * 1_000_000)
            row(f"{megabytes} MB of blocks of 1,000 bytes", f"{pauses.fork_s * 1000:.1f} ms",
                f"--snapshot copy: {pauses.copy_s * 1000:.1f} ms; fork alone: "
                f"{pauses.alone_s * 1000:.1f} ms", pauses.fork_s / pauses.alone_s, 1.2)
            row(f"{megabytes} MB, while it is watched", f"{pauses.watched_fork_s * 1000:.1f} ms",
                f"--snapshot copy: {pauses.watched_copy_s * 1000:.1f} ms",
                pauses.watched_fork_s / pauses.alone_s, 1.2)
        except Failed as reason:
            row(f"{megabytes} MB", "skipped", str(reason))
    say("\n--leak-check: one look at many blocks, from its start to its report")
    for blocks in (1_000_000, 10_000_000):
        for shape in ("list", "shuffled", "map", "hash"):
            try:
                found, own = heap.analysis(bench, shape, blocks)
                row(f"{blocks} blocks, {shape}", f"{found.elapsed_s:.2f} s",
                    f"CPU: {found.cpu_s:.2f} s; {own:.0f} bytes of ours a block, beside the copy")
            except Failed as reason:
                row(f"{blocks} blocks, {shape}", "skipped", str(reason))


def touched_pages(bench):
    say("\nA program that touches pages, watched with --track faults; beside perf record --call-graph dwarf")
    for rate, most in faults.RATES:
        alone, watched, theirs, ratio, lost, all_faults = faults.measure(bench, rate)
        beside = "no perf" if theirs is None else f"perf: {theirs / alone:.2f}"
        row(f"{rate} pages a second", f"{watched / alone:.2f} times", f"{beside}; lost {lost} of {all_faults}",
            ratio, most)


PARTS = {
    "pairs": lambda bench, _: cost_of_a_pair(bench),
    "live": cost_of_live_blocks,
    "attach": lambda bench, _: stop_at_attach(bench),
    "leave": lambda bench, _: many_threads(bench),
    "births": lambda bench, _: births_and_signals(bench),
    "shapes": lambda bench, _: without_stops(bench),
    "daemons": lambda bench, _: programs_under_load(bench),
    "leak-check": looks_at_the_heap,
    "faults": lambda bench, _: touched_pages(bench),
    "others": lambda bench, _: beside_others(bench),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="a build folder with memleax and bench/")
    parser.add_argument("--full", action="store_true", help="up to 5000000 live blocks")
    parser.add_argument("--only", choices=PARTS, action="append", help="only this part")
    options = parser.parse_args()
    bench = Bench(options.folder)
    say(f"{os.cpu_count()} CPUs, Linux {os.uname().release}, load average {os.getloadavg()[0]:.1f}")
    failed = False
    for name in options.only or PARTS:
        try:
            PARTS[name](bench, options.full)
        except Failed as reason:
            say(f"  failed: {reason}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

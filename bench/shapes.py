# SPDX-License-Identifier: GPL-3.0-or-later
"""What watching without stops adds to a malloc/free pair, by what the program is like."""

import others
from processes import Memleax, Target

# Of alloc_target: its shape, the number of its threads, and what is wanted of us: nanoseconds more
# than untraced, where that is said, or as a part of what heaptrack adds.
SHAPES = (("8 frames", "plain", 1, 90, 1 / 3),
          ("30 frames", "deep", 1, 130, 1 / 3),
          ("1,024 paths of 18 frames in turn", "paths", 1, None, 1),
          ("freed 4,096 allocations later", "late", 1, 120, 1),
          ("8 frames, 2 threads", "plain", 2, None, 1),
          ("8 frames, 4 threads", "plain", 4, None, 1))
PAIRS = 1_000_000
ROUNDS = 5


def measure(bench, shape, threads):
    """Of a pair, in ns of wall time, the best of some rounds: untraced; watched."""
    pairs = PAIRS // threads
    with Target(bench.target, threads) as target:
        alone = min(target.ns_per_pair(pairs, shape=shape) for _ in range(ROUNDS))
        with Memleax(bench.memleax, target.pid, "--engine", "inline"):
            target.ns_per_pair(max(pairs // 20, 5000), shape=shape)  # stacks are seen
            ours = min(target.ns_per_pair(pairs, shape=shape) for _ in range(ROUNDS))
    return alone, ours


def measure_heaptrack(bench, shape, threads):
    return others.heaptrack(bench.target, threads, PAIRS // 5 // threads, shape)

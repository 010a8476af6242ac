#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Builds memleax in build/bench, measures it, and prints a table.
#
#     bench/run.sh [BUILD-FOLDER] [--full] [--only pairs|live|attach|leave|births|shapes|daemons|faults|others|leak-check]...
#
# With a folder (one where the targets memleax and benchmarks were built) nothing is built. ptrace must be allowed.
set -euo pipefail

cd "$(dirname "$0")/.."
folder=build/bench
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
    folder=$1
    shift
else
    cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF >/dev/null
    cmake --build "$folder" --parallel "$(nproc)" --target memleax benchmarks
fi
for program in memleax bench/bare_stops bench/alloc_target; do
    if [ ! -x "$folder/$program" ]; then
        echo "bench/run.sh: $folder/$program is not there" >&2
        exit 1
    fi
done

PYTHONDONTWRITEBYTECODE=1 python3 bench/measure.py "$folder" "$@"

if [ $# -eq 0 ] || [ "$*" = --full ]; then
    printf '\nunwind_bench, track_bench and report_bench: our own time, without a target\n'
    "$folder/bench/unwind_bench" --benchmark_min_time=0.2 2>/dev/null
    "$folder/bench/track_bench"
    "$folder/bench/report_bench"
fi

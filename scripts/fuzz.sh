#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Fuzzes what reads untrusted files and memory:
#
#     scripts/fuzz.sh [-t SECONDS] [-s SEED] [TARGET...]
#
# Each target (fuzz/TARGET_fuzz.cpp; default: all) runs for SECONDS (default: 60), two at a time. The
# seed is the same at every run unless another is given. What it learns stays in build/fuzz/corpus,
# and goes on from there. A finding ends with status 1: the input is in build/fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=60
seed=1
while getopts t:s: option; do
    case $option in
    t) seconds=$OPTARG ;;
    s) seed=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [ $# -eq 0 ]; then
    for source in fuzz/*_fuzz.cpp; do
        name=$(basename "$source" _fuzz.cpp)
        set -- "$@" "$name"
    done
fi

build=build/fuzz
launcher=()
if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
cmake --preset fuzz "${launcher[@]}" >/dev/null
cmake --build "$build" --target "${@/%/_fuzz}" >"$build/build.log" || {
    cat "$build/build.log"
    exit 1
}
[ -d "$build/seeds" ] || fuzz/corpus.sh "$build/seeds"

# No input may take longer than 25 s (two cores that others use too) or more than 2 GiB, under sanitizers.
# Leaks are not looked for: libelf and libdw lose a little of each file that they refuse.
fuzz() {
    local target=$1 folder
    folder=$build/corpus/$target
    mkdir -p "$folder" "$build/findings" "$build/logs"
    local log=$build/logs/$target.log status=0
    ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0 \
        "$build/fuzz/${target}_fuzz" -seed="$seed" -max_total_time="$seconds" -timeout=25 \
        -rss_limit_mb=2048 -malloc_limit_mb=3000 -detect_leaks=0 -print_final_stats=1 \
        -artifact_prefix="$build/findings/$target-" "$folder" "$build/seeds/$target" \
        >"$log" 2>&1 </dev/null || status=$?
    awk -v target="$target" -v seed="$seed" -v status="$status" '
        /number_of_executed_units/ { runs = $2 }
        /peak_rss_mb/ { rss = $2 }
        /^Done/ { seconds = $5 }
        / cov: / { for (i = 1; i < NF; ++i) { if ($i == "corp:") { split($(i + 1), n, "/") } } }
        END { printf "%-13s seed %s: %s runs in %s s, corpus %s, %s MB, %s\n", target, seed, runs,
              seconds, n[1], rss, status == 0 ? "no finding" : "A FINDING" }' "$log"
    if [ "$status" -ne 0 ]; then
        grep -E "ERROR:|SUMMARY|runtime error|Test unit written" "$log" || tail -n 5 "$log"
        echo "again: $build/fuzz/${target}_fuzz $build/findings/$target-*"
        return 1
    fi
}
export -f fuzz
export build seed seconds
printf '%s\0' "$@" | xargs -0 -P 2 -I{} bash -c 'fuzz {}'

#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Cross-builds memleax, its tests and its fixtures for arm64, and runs the tests on Debian's arm64
# kernel in an emulated machine: on a Cortex-A72 (no LSE, no pointer authentication) and on qemu's
# "max" CPU (LSE, PAC, BTI, SVE). Fetches what it needs from Debian's archive, by the sources of the
# host; build/arm64-machine keeps it. No kernel on silicon has run these tests.
#
# scripts/test-arm64.sh [-c CPU] [TEST]..., as in: scripts/test-arm64.sh -c cortex-a72 sleeper_test
set -euo pipefail
cd "$(dirname "$0")/.."

cpus=(cortex-a72 "max,pauth-impdef=on")
while getopts c: option; do
    case $option in
        c) cpus=("$OPTARG") ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

scripts/setup.sh arm64
scripts/arm64/packages.sh
scripts/arm64/machine.sh
cmake --preset arm64
cmake --build --preset arm64 --parallel "$(nproc)"

# Not here: what does not depend on the CPU or the kernel (the host's run tests it), and what needs
# programs that the machine lacks (a browser).
elsewhere='callgrind_report|demangle|fill_report|folded_report|freed_blocks|function_name|html_browser'
elsewhere+='|html_report|intervals|json_report|large_report|live_blocks|many_blocks|options|pprof_report'
elsewhere+='|printable|report|report_modules|stack_table|tracker_random|tracker|usage_error|verdict'
# On the CPU with pointer authentication: unwinding, what stands in slots, and what we leave behind.
again='exact_counts|left_as_found|own_death|sleeper|signals|unwind_.*|arm64_.*|.*_daemons|daemons'
mapfile -t all < <(find tests tests/aarch64 -maxdepth 1 -name "*_test.cpp" | sort | sed 's,.*/,,; s/\.cpp$//' |
    grep -vxE "($elsewhere)_test")
jobs=()
for cpu in "${cpus[@]}"; do
    tests=("$@")
    if [ ${#tests[@]} -eq 0 ]; then
        tests=("${all[@]}")
    fi
    for name in "${tests[@]}"; do
        if [ $# -gt 0 ] || [ "$cpu" = "${cpus[0]}" ] || [[ $name =~ ^($again)_test$ ]]; then
            jobs+=("$cpu $name")
        fi
    done
done

# Two machines at a time, a boot (four seconds) for each test program: each keeps one core busy.
results=$PWD/build/arm64/results
rm -rf "$results"
mkdir -p "$results"
run_job() { # run_job CPU TEST
    local log
    log=$results/${1%%,*}-$2
    scripts/arm64/boot.sh "$1" 1200 scripts/arm64/run-tests.sh 1000 "$2" >"$log" 2>&1 </dev/null ||
        echo "$1: $2: status $?" >>"$results/failed"
    grep '^\[  FAILED\|^== ' "$log" | sed "s/^/$1: /" | sort -u
}
export -f run_job
export results
printf '%s\n' "${jobs[@]}" | xargs -P 2 -L 1 bash -c 'run_job "$@"' run_job

count() { # count WORD: the tests that gtest counted so
    cat "$results"/*-* | sed -n "s/^== .*$1 \([0-9]*\) test.*/\1/p" | awk '{ sum += $1 } END { print sum + 0 }'
}
echo "$(count PASSED) passed, $(count FAILED) failed, $(count SKIPPED) skipped"
if [ -e "$results/failed" ]; then
    echo "On arm64 these failed; build/arm64/results has what they said:"
    cat "$results/failed"
    exit 1
fi

#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Builds the unit tests, and no more than they need, and runs them:
#
#     scripts/unit-tests.sh [PRESET...]
#
# PRESET is debug, asan (ASan and UBSan; without optimization and with the libraries' assertions, too) or
# tsan (what several of our threads use, under TSan); default: asan and tsan.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- asan tsan
for preset; do
    target=unit_tests
    [ "$preset" != tsan ] || target=threads_tests
    cmake --preset "$preset" -DMEMLEAX_UNITY=ON --log-level=WARNING >/dev/null
    cmake --build "build/$preset" --parallel "$(nproc)" --target "$target" -- --quiet
    echo "-- $preset: built after $SECONDS s"
    # One that fails prints what it has found. TSan's findings end a test with status 66.
    ctest --test-dir "build/$preset" --label-regex unit --output-on-failure --parallel "$(nproc)" \
        </dev/null | grep -vE '^ +Start +[0-9]+: |^ *[0-9]+/[0-9]+ Test .* Passed +[0-9.]+ sec'
done

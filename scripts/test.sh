#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Sets up, builds with warnings as errors in build/ci, and runs all tests. Without an option it builds the
# static program in build/static first, which the test Static is about.
# scripts/test.sh [CTEST-OPTION]..., as in: scripts/test.sh -R Daemons
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh test
cmake -S . -B build/ci -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DMEMLEAX_WERROR=ON -DBUILD_TESTING=ON \
    --log-level=WARNING
cmake --build build/ci --parallel "$(nproc)" -- --quiet
if [ $# -eq 0 ]; then
    cmake --preset static --log-level=WARNING >/dev/null
    cmake --build --preset static --parallel "$(nproc)" -- --quiet
fi
rm -rf build/ci/tests/results
# One more than there are CPUs, as most wait for something now and then.
# No terminal and no input, as in CI, so that no test comes to depend on one. Of the tests that pass only
# build/ci/tests.log tells: what a failing one prints is not to be searched for among a thousand others.
ctest --test-dir build/ci --output-on-failure --parallel $(($(nproc) + 1)) "$@" </dev/null 2>&1 |
    tee build/ci/tests.log | grep -vE '^ +Start +[0-9]+: |^ *[0-9]+/[0-9]+ Test .* Passed +[0-9.]+ sec'
# What the README and the man page say that works is what these tests have found.
if [ $# -eq 0 ]; then
    scripts/process_table.py --check build/ci/tests/results
fi

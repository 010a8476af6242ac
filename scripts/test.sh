#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Sets up, builds with warnings as errors in build/ci, and runs all tests. Without an option it builds the
# static program in build/static-test first, which the test Static is about: without optimization, which
# nothing else is built without.
# scripts/test.sh [CTEST-OPTION]..., as in: scripts/test.sh -R Daemons
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh test
# From scratch in half the time, by unity files, precompiled headers and debug information for call
# stacks only; a build that is there stays as it is.
fast=()
[ -e build/ci/CMakeCache.txt ] ||
    fast=(-DMEMLEAX_UNITY=ON -DMEMLEAX_PCH=ON -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -g1 -DNDEBUG")
cmake -S . -B build/ci -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DMEMLEAX_WERROR=ON -DBUILD_TESTING=ON \
    "${fast[@]}" --log-level=WARNING
cmake --build build/ci --parallel "$(nproc)" -- --quiet
if [ $# -eq 0 ]; then
    cmake --preset static -B build/static-test -DMEMLEAX_WERROR=ON -DCMAKE_C_FLAGS_RELEASE=-O0 \
        -DCMAKE_CXX_FLAGS_RELEASE=-O0 --log-level=WARNING >/dev/null
    cmake --build build/static-test --parallel "$(nproc)" -- --quiet
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

#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Sets up, builds with warnings as errors in build/ci, and runs all tests.
# scripts/test.sh [CTEST-OPTION]..., as in: scripts/test.sh -R Daemons
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
cmake -S . -B build/ci -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DMEMLEAX_WERROR=ON
cmake --build build/ci --parallel "$(nproc)"
# No terminal and no input, as in CI, so that no test comes to depend on one.
ctest --test-dir build/ci --output-on-failure --parallel "$(nproc)" "$@" </dev/null

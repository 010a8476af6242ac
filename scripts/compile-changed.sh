#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Compiles files of the program each by itself, with all warnings. Unity files and precompiled headers, by
# which everything else is built in CI, hide what one forgets to include, and what it shadows.
#
#     scripts/compile-changed.sh [-a | COMMIT]
#
# Those that have changed since COMMIT, by default in the last 20 commits; or all.
set -euo pipefail
cd "$(dirname "$0")/.."

folders=(src arch/x86_64)
if [ "${1:-}" = -a ]; then
    mapfile -t files < <(git ls-files -- "${folders[@]}" | grep '\.cpp$')
else
    base=${1:-HEAD~20}
    # A young history, or a shallow one, has fewer.
    git rev-parse --quiet --verify "$base" >/dev/null || base=$(git rev-list --max-parents=0 HEAD | tail -n 1)
    mapfile -t files < <(git diff --name-only --diff-filter=d "$base" HEAD -- "${folders[@]}" | grep '\.cpp$')
fi
if [ ${#files[@]} -eq 0 ]; then
    echo "-- no file of the program has changed"
    exit 0
fi
cmake -S . -B build/plain -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DMEMLEAX_WERROR=ON \
    -DMEMLEAX_UNITY=OFF -DMEMLEAX_PCH=OFF -DBUILD_TESTING=OFF -DMEMLEAX_HTML=OFF --log-level=WARNING >/dev/null
# FILE^ is what ninja makes of a file.
files=("${files[@]/%/^}")
ninja -C build/plain --quiet -j "$(nproc)" "${files[@]/#/$PWD/}"
echo "-- ${#files[@]} files compiled"

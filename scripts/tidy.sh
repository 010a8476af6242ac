#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# clang-tidy on the program's sources; its warnings are errors (.clang-tidy), and so are clang's own:
#
#     scripts/tidy.sh            all of them, up to sixteen files of a layer at a time: what takes time are the headers
#     scripts/tidy.sh FILE...    these, each by itself
#
# With clang's own compile commands: it does not know every option of gcc. Warnings in headers are
# reported by each file that includes them.
set -euo pipefail
cd "$(dirname "$0")/.."

unity=OFF
[ $# -gt 0 ] || unity=ON
build=build/tidy-$unity
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DBUILD_TESTING=OFF -DMEMLEAX_UNITY=$unity \
    -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 --log-level=WARNING \
    -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 >/dev/null
if [ $# -eq 0 ]; then
    # Unity files, and what is in none of them, the most lines first. "suspicious" is that they include sources.
    mapfile -t sources < <(sed -nE 's/^ *"file": "(.*\.c(pp|xx))".*/\1/p' "$build/compile_commands.json" |
        grep -E "/Unity/|^$PWD/(src|arch)/" | sort -u | xargs -d '\n' grep -c '' | sort -t: -k2 -rn | cut -d: -f1)
    set -- "${sources[@]}"
fi
printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -n 1 clang-tidy-14 -p "$build" --quiet \
    --checks=-bugprone-suspicious-include 2> >(grep -v 'warnings generated\.$' >&2)

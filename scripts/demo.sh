#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Shows a leak being found: sets up, builds, starts a small server that leaks
# (fixtures/leaky_daemon.cpp), watches it for six seconds, and stops it.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh demo
{
    cmake --preset release
    cmake --build --preset release --target memleax
    g++ -O2 -g -pthread fixtures/leaky_daemon.cpp -o build/release/leaky_daemon
} >&2

# Its output goes into a pipe of ours: its first line says that it serves.
exec {daemon_output}< <(exec build/release/leaky_daemon 60)
daemon=$!
trap 'kill "$daemon" 2>/dev/null || true' EXIT
read -r -t 30 line <&"$daemon_output"
echo "$line"
echo "\$ memleax -e 1 -t 6 $daemon"
build/release/memleax -e 1 -t 6 "$daemon"

# It goes on as if nobody had been there.
kill -0 "$daemon"

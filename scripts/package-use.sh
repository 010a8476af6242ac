#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Uses what scripts/package-test.sh has installed into a root of its own: the program that lies there
# watches LEAKY-PROGRAM.
#
#     scripts/package-use.sh ROOT LEAKY-PROGRAM
set -euo pipefail
memleax=$1/usr/bin/memleax
leaky=$2

work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon"; rm -rf "$work"' EXIT
fail() {
    echo "scripts/package-use.sh: $*" >&2
    exit 1
}
mkfifo "$work/words" # the machine has no /dev/fd for a <()
"$leaky" 60 >"$work/words" &
daemon=$!
exec {output}<"$work/words"
read -r -t 30 _ <&"$output"
report=$("$memleax" -e 1 -t 3 --allocators sqlite "$daemon" 2>&1) || fail "it failed: $report"
grep -q 'shop::SessionStore::open' <<<"$report" || fail "it did not find the leak: $report"
kill -0 "$daemon" || fail "the target did not survive"

if ! "$memleax" -q -e 1 -t 2 -F html -o "$work/page" "$daemon" 2>"$work/why"; then
    # One that was made without npm, or its libraries.
    grep -q 'this build is without html' "$work/why" || fail "no html report: $(<"$work/why")"
elif ! grep -q 'shop::SessionStore::open' "$work/page"; then
    fail "the page does not have the leak"
fi
kill -0 "$daemon" || fail "the target did not survive"
echo "used on $(uname -m): found the leak of $(basename "$leaky")"

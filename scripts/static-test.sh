#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Tries the static program where there is nothing but itself, its target, and /proc; also with the system
# calls of Linux 4.4 only, in which OLD-KERNEL executes it (fixtures/old_kernel.c):
#
#     scripts/static-test.sh build/static-test/memleax LEAKY-PROGRAM OLD-KERNEL
#
# Ends with 77, which ctest takes for "skipped", where it has not been built, or mounts need
# privileges that we do not have.
set -euo pipefail
skip() {
    echo "scripts/static-test.sh: $*: not run" >&2
    exit 77
}
fail() {
    echo "scripts/static-test.sh: $*" >&2
    exit 1
}
[ -x "$1" ] || skip "$1 is not built (scripts/test.sh builds it)"
# /proc is mounted in a mount namespace that ends with the test. Only outside of it, where the root has no
# mount, is the root removed.
if [ -z "${STATIC_TEST_ROOT:-}" ]; then
    unshare --mount true 2>/dev/null || skip "no mount namespace can be made here"
    root=$(mktemp -d)
    trap 'rm -rf --one-file-system "$root"' EXIT
    STATIC_TEST_ROOT=$root unshare --mount "$0" "$@"
    exit
fi
root=$STATIC_TEST_ROOT
memleax=$(realpath "$1")
leaky=$(realpath "$2")
old_kernel=$(realpath "$3")

# The C library in it wants no kernel that is younger than ten years: "OS: Linux, ABI: 3.2.0".
abi=$(readelf --notes "$memleax" 2>/dev/null | sed -n 's/.*OS: Linux, ABI: //p' | head -n 1)
[ "$(printf '%s\n' "${abi:-none}" 4.5 | sort -V | head -n 1)" != 4.5 ] || fail "it wants Linux ${abi:-(no note says which)}"
# It asks for no other file: no interpreter, no library.
readelf --program-headers "$memleax" | grep -q INTERP && fail "it asks for a dynamic linker"
readelf --dynamic "$memleax" | grep -q NEEDED && fail "it asks for shared libraries"

daemon=
trap '[ -z "$daemon" ] || kill "$daemon"' EXIT
mkdir "$root/proc"
mount --bind /proc "$root/proc"
cp "$memleax" "$root/memleax"
cp "$leaky" "$root/leaky"
# The target's libraries, at the places where it looks for them.
ldd "$leaky" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root${library%/*}"
    cp --dereference "$library" "$root$library"
done

exec {output}< <(exec chroot "$root" /leaky 60)
daemon=$!
read -r -t 30 _ <&"$output"
in_root() {
    env --ignore-environment PATH="$PATH" "$@"
}
report=$(in_root chroot "$root" /memleax -e 1 -t 3 -x status -F html -o /report.html "$daemon" 2>&1) ||
    fail "it failed: $report"
grep -q warning <<<"$report" && fail "it lacks something: $report" # its guardian, say
grep -q '^memory ' <<<"$report" || fail "the prompt's commands do not work: $report"
grep -q 'shop::SessionStore::open' "$root/report.html" || fail "the page does not have the leak"
grep -q 'leaky_daemon.cpp' "$root/report.html" || fail "the page has no lines"
kill -0 "$daemon" || fail "the target did not survive"

report=$(in_root DEBUGINFOD_URLS=http://127.0.0.1:1 chroot "$root" /memleax -e 1 -t 2 "$daemon" 2>&1) ||
    fail "it failed: $report"
grep -q 'shop::SessionStore::open' <<<"$report" || fail "it did not find the leak: $report"
grep -q 'is linked statically, and cannot load libdebuginfod.so.1' <<<"$report" ||
    fail "it does not say what it cannot do: $report"
kill -0 "$daemon" || fail "the target did not survive"

report=$(in_root chroot "$root" /memleax --engine inline -e 1 -t 2 "$daemon" 2>&1) ||
    fail "it failed: $report"
if [ "$(uname -m)" = x86_64 ]; then
    grep -q 'shop::SessionStore::open' <<<"$report" || fail "inline: it did not find the leak: $report"
fi
kill -0 "$daemon" || fail "the target did not survive"
if report=$(in_root chroot "$root" /memleax --unwinder libunwind -t 1 "$daemon" 2>&1); then
    fail "it is said to have no libunwind: $report"
fi
grep -q 'this build is without libunwind: ' <<<"$report" || fail "it does not say what it cannot do: $report"
for engine in int3 inline; do
    report=$(in_root "$old_kernel" chroot "$root" /memleax --engine "$engine" -e 1 -t 2 "$daemon" 2>&1) ||
        fail "as on Linux 4.4: it failed: $report"
    [ "$engine" = inline ] && [ "$(uname -m)" != x86_64 ] ||
        grep -q 'shop::SessionStore::open' <<<"$report" || fail "as on Linux 4.4: it did not find the leak: $report"
    kill -0 "$daemon" || fail "the target did not survive"
done
# Killed, its guardian puts the target back.
mkfifo "$root/words"
env --ignore-environment PATH="$PATH" chroot "$root" /memleax -n "$daemon" 2>"$root/words" >"$root/lines" &
killed=$!
exec {words}<"$root/words"
read -r -t 30 _ <&"$words"
kill -9 "$killed"
report=$(timeout 30 cat <&"$words") || fail "the guardian does not end"
grep -q 'is as it was before' <<<"$report" || fail "the guardian does not work: $report"
kill -0 "$daemon" || fail "the target did not survive"

echo "in a root with nothing but its target: $(du -h "$memleax" | cut -f1), reports in text and html"

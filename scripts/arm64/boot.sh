#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# scripts/arm64/boot.sh [-n CPUS] CPU SECONDS COMMAND...
# Boots the test machine, runs COMMAND there as root, prints what it prints, and ends with its status;
# 124: it took too long, 125: the machine ended without an answer. CPU is one of qemu's: cortex-a72,
# or max,pauth-impdef=on; CPUS, how many, 1 by default. The project is at its path there, read only; /tmp is a fresh one.
# MEMLEAX_ARM64_BOOT: a folder that machine.sh has made of another kernel.
set -euo pipefail
project=$(cd "$(dirname "$0")/../.." && pwd -P)
machine=$project/build/arm64-machine
boot=${MEMLEAX_ARM64_BOOT:-$machine}
cpus=1
while getopts n: option; do
    case $option in
        n) cpus=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
cpu=$1
seconds=$2
shift 2

case $project in
    /tmp/* | /run/*) ;; # made in the machine's memory
    *) mkdir -p "$machine/root$project" ;;
esac
answer=$(mktemp -d)
trap 'rm -rf "$answer"' EXIT
printf '%q ' "$@" >"$answer/run"

share() { # share NAME FOLDER OPTIONS
    echo -fsdev "local,id=$1,path=$2,security_model=none,$3" -device "virtio-9p-device,fsdev=$1,mount_tag=$1"
}
# One thread for all CPUs of the machine: with more, qemu 7.2 loses breakpoints that are written while
# another CPU executes that code.
# kpti=off: the kernel would change page tables (ASIDs) at each entry and return on a Cortex-A72, and qemu
# empty its TLB, which is half of the time of tests that stop threads. On "max" (E0PD) it never does.
# shellcheck disable=SC2046 # words
timeout --kill-after=5 "$seconds" qemu-system-aarch64 -machine virt,gic-version=3 \
    -accel tcg,thread=single -cpu "$cpu" -smp "$cpus" -m 2048 \
    -nodefaults -display none -no-reboot -monitor none -serial "file:$answer/console" \
    -kernel "$boot/vmlinuz" -initrd "$boot/initramfs" \
    -append "console=ttyAMA0 quiet loglevel=3 panic=-1 cryptomgr.notests kpti=off rdinit=/init memleax.project=$project" \
    $(share root "$machine/root" readonly=on,multidevs=remap) \
    $(share project "$project" readonly=on,multidevs=remap) \
    $(share answer "$answer" multidevs=remap) \
    </dev/null && status=0 || status=$?
cat "$answer/output" 2>/dev/null || true
if [ -s "$answer/status" ]; then
    exit "$(cat "$answer/status")"
fi
cat "$answer/console" >&2
[ "$status" -eq 124 ] && exit 124
exit 125

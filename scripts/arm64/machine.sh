#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# scripts/arm64/machine.sh [KERNEL FOLDER]
# Makes what the test machine boots from what packages.sh has fetched: Debian's own kernel, and an
# initramfs that loads the modules for 9p and goes over to the root that the host shares. KERNEL, a
# linux-image package, or a kernel that needs no modules, is taken instead of Debian 12's, and what it
# boots comes to FOLDER.
set -euo pipefail
cd "$(dirname "$0")/../.."
machine=$PWD/build/arm64-machine
init=$PWD/scripts/arm64/init
kernel=$(echo "$machine"/kernel/linux-image-*.deb)
boot=$machine
if [ $# -eq 2 ]; then
    kernel=$1
    boot=$2
    mkdir -p "$boot"
fi

if [ "$boot/initramfs" -nt "$init" ] && [ "$boot/initramfs" -nt "$0" ] &&
    [ "$boot/initramfs" -nt "$kernel" ] && [ "$boot/initramfs" -nt "$machine/kernel" ]; then
    exit 0
fi
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
mkdir -p "$files"/{modules,dev,proc,sys,new}
if [ "${kernel%.deb}" = "$kernel" ]; then
    [ "$kernel" -ef "$boot/vmlinuz" ] || cp "$kernel" "$boot/vmlinuz"
else
    # Since 6.12 they are compressed, in /usr/lib, and fscache is a part of netfs.
    dpkg-deb --fsys-tarfile "$kernel" |
        tar -x -C "$files" --wildcards './boot/vmlinuz-*' \
            '*/modules/*/'{netfs,9pnet,9p,9pnet_virtio,virtio_mmio}.ko* './*/fscache.ko*' 2>"$files/tar" ||
        grep -q 'fscache.*Not found' "$files/tar" || { cat "$files/tar" >&2 && exit 1; }
    mv "$files"/boot/vmlinuz-* "$boot/vmlinuz"
    find "$files" -name '*.ko.xz' -exec xz -d {} +
    find "$files" -path "$files/modules" -prune -o -name '*.ko' -exec mv -t "$files/modules" {} +
    rm -rf "${files:?}"/{lib,usr,boot,tar}
fi
cp "$machine/root/bin/busybox" "$init" "$files"
(cd "$files" && find . -print0 | cpio --quiet -0 -o -H newc -R 0:0) >"$boot/initramfs.part"
mv "$boot/initramfs.part" "$boot/initramfs"

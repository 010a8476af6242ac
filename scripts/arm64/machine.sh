#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Makes what the test machine boots from what packages.sh has fetched: Debian's own kernel, and an
# initramfs that loads the modules for 9p and goes over to the root that the host shares.
set -euo pipefail
cd "$(dirname "$0")/../.."
machine=$PWD/build/arm64-machine
init=$PWD/scripts/arm64/init

if [ "$machine/initramfs" -nt "$init" ] && [ "$machine/initramfs" -nt "$0" ] &&
    [ "$machine/initramfs" -nt "$machine/kernel" ]; then
    exit 0
fi
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
mkdir -p "$files"/{modules,dev,proc,sys,new}
dpkg-deb --fsys-tarfile "$machine"/kernel/linux-image-*.deb |
    tar -x -C "$files" --wildcards './boot/vmlinuz-*' \
        './lib/modules/*/'{netfs,fscache,9pnet,9p,9pnet_virtio,virtio_mmio}.ko
mv "$files"/boot/vmlinuz-* "$machine/vmlinuz"
find "$files/lib" -name '*.ko' -exec mv -t "$files/modules" {} +
rm -r "${files:?}/lib" "${files:?}/boot"
cp "$machine/root/bin/busybox" "$init" "$files"
(cd "$files" && find . -print0 | cpio --quiet -0 -o -H newc -R 0:0) >"$machine/initramfs.part"
mv "$machine/initramfs.part" "$machine/initramfs"

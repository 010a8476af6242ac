#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# scripts/arm64/kernel64k.sh [FOLDER]
# Builds a kernel with pages of 64 KiB: Debian has none. It is made from the source of Debian's own
# kernel, and has what the tests need built in, and nothing else. FOLDER, build/arm64-machine/64k by
# default, is then one that scripts/test-arm64.sh -k takes. The build takes ten minutes of CPU time.
set -euo pipefail
cd "$(dirname "$0")/../.."
boot=$(realpath -m "${1:-build/arm64-machine/64k}")
source=/usr/src/linux-source-6.1.tar.xz

packages=(linux-source-6.1 gcc-aarch64-linux-gnu make bc bison flex libssl-dev libelf-dev xz-utils)
dpkg-query --show "${packages[@]}" >/dev/null 2>&1 ||
    apt-get -qq install -y --no-install-recommends "${packages[@]}"
if [ "$boot/vmlinuz" -nt "$source" ] && [ "$boot/vmlinuz" -nt "$0" ]; then
    scripts/arm64/machine.sh "$boot/vmlinuz" "$boot"
    exit
fi

wanted=(
    # the machine
    ARM64_64K_PAGES ARM64_VA_BITS_48 EXPERT PRINTK BUG TTY SERIAL_AMBA_PL011 SERIAL_AMBA_PL011_CONSOLE RTC_CLASS
    RTC_DRV_PL031 VIRTIO_MENU VIRTIO_MMIO HIGH_RES_TIMERS NO_HZ_IDLE BLK_DEV_INITRD MULTIUSER
    # what CPUs may have
    ARM64_HW_AFDBM ARM64_PAN ARM64_USE_LSE_ATOMICS ARM64_PTR_AUTH ARM64_BTI ARM64_E0PD ARM64_SVE ARM64_MTE
    ARM64_TAGGED_ADDR_ABI
    # file systems and sockets
    NET UNIX INET PACKET NETWORK_FILESYSTEMS NET_9P NET_9P_VIRTIO 9P_FS PROC_FS PROC_SYSCTL PROC_PAGE_MONITOR SYSFS
    SHMEM TMPFS TMPFS_XATTR DEVTMPFS UNIX98_PTYS HUGETLBFS DEBUG_FS INOTIFY_USER FANOTIFY FHANDLE FILE_LOCKING
    # programs, and what ends them
    BINFMT_ELF BINFMT_SCRIPT COREDUMP ELF_CORE SECCOMP SECCOMP_FILTER SECURITY SECURITY_YAMA
    # system calls
    FUTEX EPOLL SIGNALFD TIMERFD EVENTFD AIO IO_URING ADVISE_SYSCALLS MEMBARRIER RSEQ POSIX_TIMERS SYSVIPC
    POSIX_MQUEUE USERFAULTFD KCMP CHECKPOINT_RESTORE CROSS_MEMORY_ATTACH KEYS
    # namespaces, control groups, accounts
    NAMESPACES UTS_NS IPC_NS USER_NS PID_NS NET_NS CGROUPS CGROUP_FREEZER CGROUP_PIDS CGROUP_SCHED FAIR_GROUP_SCHED
    CFS_BANDWIDTH MEMCG CPUSETS PSI TASKSTATS TASK_XACCT TASK_IO_ACCOUNTING VM_EVENT_COUNTERS
    # memory, and looking on
    TRANSPARENT_HUGEPAGE TRANSPARENT_HUGEPAGE_ALWAYS COMPACTION MIGRATION KSM PERF_EVENTS ARM_PMU HW_PERF_EVENTS
    KALLSYMS UPROBES FTRACE UPROBE_EVENTS
)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -x -f "$source" -C "$work" --strip-components=1
make=(make -s -C "$work" ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- "KCFLAGS=-w")
printf 'CONFIG_%s=y\n' "${wanted[@]}" >"$work/wanted"
"${make[@]}" KCONFIG_ALLCONFIG="$work/wanted" allnoconfig >/dev/null
missing=$(grep -vxFf "$work/.config" "$work/wanted") && {
    echo "scripts/arm64/kernel64k.sh: the configuration came without: $missing" >&2
    exit 1
}
"${make[@]}" --jobs="$(nproc)" Image
mkdir -p "$boot"
cp "$work/arch/arm64/boot/Image" "$boot/vmlinuz"
scripts/arm64/machine.sh "$boot/vmlinuz" "$boot"

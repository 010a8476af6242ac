#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Installs packages on Debian 12, as root or through sudo. Quick, and without network, when all is
# there.
#
#     scripts/setup.sh          what a build needs
#     scripts/setup.sh demo     the same, but for npm (404 packages of Debian's), which the html report needs
#     scripts/setup.sh static   also what a static, self-contained program needs: archives that the others lack
#     scripts/setup.sh test     also what the tests, the benchmarks and the checks of .ci/run need
#     scripts/setup.sh arm64    also what scripts/test-arm64.sh runs on the host
set -euo pipefail

what=${1:-build}
case $what in build | demo | static | test | arm64) ;; *)
    echo "scripts/setup.sh: '$what' is none of build, demo, static, test, arm64" >&2
    exit 2
    ;;
esac

packages=(
    g++ cmake ninja-build pkg-config
    libdw-dev libelf-dev libunwind-dev libcapstone-dev libiberty-dev libreadline-dev libcli11-dev
    libfmt-dev libabsl-dev nlohmann-json3-dev zlib1g-dev libprotozero-dev
    scdoc
)

# For the html report. Other builds of Node.js bring npm along, and conflict with Debian's.
[ "$what" = demo ] || command -v npm >/dev/null || packages+=(nodejs npm)

# Archives: those of the libraries above come with the packages above (but fmt, of which only the headers
# are used). These are what libdw and readline need.
if [ "$what" = static ] || [ "$what" = test ] || [ "$what" = arm64 ]; then
    packages+=(libbz2-dev liblzma-dev libncurses-dev)
fi

if [ "$what" = test ] || [ "$what" = arm64 ]; then
    packages+=(
        libgtest-dev libgmock-dev libbenchmark-dev musl-tools procps
        protobuf-compiler libprotobuf-dev valgrind binutils
        libjemalloc-dev libgoogle-perftools-dev libmimalloc-dev
        libglib2.0-0 libsqlite3-0 libapr1 libssl3
        debuginfod dwz lld llvm-14 xz-utils
        rustc golang-go redis-server redis-tools memcached nginx-light wrk python3 php-cli ruby strace chromium
        dpkg-dev file lintian zsh fish
        # to check the source, to fuzz, and to compile what is the same once
        clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14 ccache
    )
fi

if [ "$what" = arm64 ]; then
    packages+=(g++-aarch64-linux-gnu qemu-system-arm qemu-user cpio)
fi

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "scripts/setup.sh: to be installed, as root: ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
# env, because sudo does not pass variables on.
apt_get=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)

echo "scripts/setup.sh: installing ${missing[*]}"
"${apt_get[@]}" update -qq
"${apt_get[@]}" install -y -qq --no-install-recommends "${missing[@]}"

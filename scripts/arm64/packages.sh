#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Unpacks Debian's arm64 packages into build/arm64-machine/root: what memleax is linked with, and what
# runs in the test machine. One tree is both the sysroot of the cross build and the root file system. Its
# var/lib/dpkg says what is there, so that a package made for it can be given its dependencies.
# The packages come from the host's own sources, by an apt whose state is private: the host's list of
# architectures and of packages stays as it is. Nothing is configured (no maintainer script runs).
set -euo pipefail
cd "$(dirname "$0")/../.."
machine=$PWD/build/arm64-machine
root=$machine/root

packages=(
    # to build; the same as in scripts/setup.sh
    libc6-dev libstdc++-12-dev libdw-dev libelf-dev libunwind-dev libcapstone-dev libiberty-dev
    libreadline-dev libcli11-dev libfmt-dev libabsl-dev nlohmann-json3-dev zlib1g-dev libprotozero-dev
    libgtest-dev libgmock-dev libprotobuf-dev musl-dev
    libjemalloc-dev libgoogle-perftools-dev libmimalloc-dev
    # to run
    busybox-static bash dash coreutils util-linux mount procps sed grep mawk findutils diffutils
    libc-bin gzip hostname less ncurses-base
    libglib2.0-0 libsqlite3-0 libapr1 libssl3
    gcc binutils dwz xz-utils debuginfod
    redis-server redis-tools memcached nginx-light wrk python3
)

# Unpacked already, by this script as it is now? The stamp comes last.
stamp=$machine/packages-$(sha256sum "$0" | cut -c1-16)
if [ -e "$stamp" ]; then
    exit 0
fi
rm -rf "$root" "$machine/kernel" "$machine"/packages-*
mkdir -p "$machine"/apt/{state/lists/partial,cache/archives/partial}
: >"$machine/apt/status" # nothing is installed: all that is needed is named by apt
cat >"$machine/apt/apt.conf" <<CONF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Dir::State "$machine/apt/state";
Dir::State::status "$machine/apt/status";
Dir::Cache "$machine/apt/cache";
Acquire::Languages "none";
Acquire::Retries "3";
CONF
# Read last: what the host does after an update is not for this one.
echo '#clear APT::Update; #clear DPkg;' >"$machine/apt/last.conf"
export APT_CONFIG=$machine/apt/apt.conf
apt_get=(apt-get -c "$machine/apt/last.conf" -qq)
"${apt_get[@]}" update
"${apt_get[@]}" install -y --download-only "${packages[@]}" >/dev/null

# The full kernel: the cloud one has no 9p. Of its 500 MB machine.sh takes a few files.
kernel=$(apt-cache depends linux-image-arm64 | sed -n 's/^ *Depends: //p' | head -n 1)
mkdir "$machine/kernel"
(cd "$machine/kernel" && "${apt_get[@]}" download "$kernel")

# As on a merged /usr, before unpacking: no package ships these links.
mkdir -p "$root"/{usr/bin,usr/sbin,usr/lib,dev,proc,sys,tmp,run,etc,root,mnt,var/tmp}
for folder in bin sbin lib; do
    ln -s "usr/$folder" "$root/$folder"
done
# As dpkg would, which does not unpack without maintainer scripts: what a package is, its files, and what
# dpkg-shlibdeps wants to know of its libraries.
database=$root/var/lib/dpkg
mkdir -p "$database"/{info,updates,triggers}
echo 1 >"$database/info/format" # of several architectures: the name of a list may have one in it
echo arm64 >"$database/arch"
record() { # record PACKAGE-FILE <NAMES-OF-ITS-FILES: enters the package into the database
    local control name
    control=$(mktemp -d)
    dpkg-deb --control "$1" "$control"
    name=$(sed -n 's/^Package: //p' "$control/control")
    if grep -q '^Multi-Arch: same' "$control/control"; then
        name+=:arm64
    fi
    { echo "Status: install ok installed" && cat "$control/control" && echo; } >>"$database/status"
    sed 's/^\.//; s/\/$//; s/^$/\/./' >"$database/info/$name.list"
    for file in shlibs symbols; do
        [ ! -e "$control/$file" ] || cp "$control/$file" "$database/info/$name.$file"
    done
    rm -rf "$control"
}

# What apt would install now: other versions may lie in its cache.
apt-get install --simulate "${packages[@]}" |
    sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1_\2/p' | sed 's/:/%3a/' |
    while read -r package; do
        archive=$(echo "$machine/apt/cache/archives/${package}"_*.deb)
        # tar, because dpkg -x puts a folder in the place of the link lib -> usr/lib.
        dpkg-deb --fsys-tarfile "$archive" |
            tar -x --verbose --keep-directory-symlink -C "$root" --exclude='./usr/share/doc/*' \
                --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' |
            record "$archive"
    done
# Absolute links point into the host.
find "$root" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
    target=$(realpath -m --relative-to="$(dirname "$link")" "$root$(readlink "$link")")
    ln -sfn "$target" "$link"
done

# As the maintainer scripts would.
ln -s gcc "$root/usr/bin/cc"
ln -s mawk "$root/usr/bin/awk"
printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
echo '127.0.0.1 localhost' >"$root/etc/hosts"
touch "$stamp"

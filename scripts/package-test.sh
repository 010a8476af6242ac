#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Makes the Debian package of a build folder, and tries it:
#
#     scripts/package-test.sh BUILD-FOLDER LEAKY-PROGRAM
#
# lintian has nothing to say of it; it is installed into a root of its own, with the host's list of
# installed packages, so that its dependencies are checked; the program that lies there watches
# LEAKY-PROGRAM; and purged it leaves nothing. The host is not touched. The package of a cross build is
# used in the emulated machine of scripts/arm64, and that machine's packages are the installed ones.
set -euo pipefail
build=$(realpath "$1")
leaky=$(realpath "$2")
cd "$(dirname "$0")/.."

work=$(mktemp -d "$build/package-test.XXXXXX") # where the machine sees it
trap 'rm -rf "$work"' EXIT
fail() {
    echo "scripts/package-test.sh: $*" >&2
    exit 1
}

(cd "$work" && cpack --config "$build/CPackConfig.cmake" -B "$work/cpack" >"$work/cpack.log" 2>&1) ||
    { cat "$work/cpack.log" && fail "cpack failed"; }
package=$(find "$work/cpack" -maxdepth 1 -name '*.deb')
[ -e "$package" ] || fail "cpack made no package"
dpkg-deb --field "$package" Package Version Architecture Depends
database=/var/lib/dpkg
machine=()
if [ "$(dpkg-deb --field "$package" Architecture)" != "$(dpkg --print-architecture)" ]; then
    database=build/arm64-machine/root/var/lib/dpkg
    machine=(scripts/arm64/boot.sh cortex-a72 300)
fi

# cpack lets dpkg-shlibdeps pass over libraries that it knows no package of.
dpkg-deb --field "$package" Depends | tr ',' '\n' | sed 's/^ *\([^ ]*\).*/\1/' >"$work/depends"
readelf --dynamic "$build/memleax" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$work/needed"
while read -r library; do
    dpkg-query --admindir="$database" --search "*/$library" | sed 's/[:,].*//' |
        grep -qxFf "$work/depends" || fail "it needs $library, and Depends has no package of it"
done <"$work/needed"

if command -v lintian >/dev/null; then
    # A package of our own, for no release of Debian's.
    lintian --allow-root --fail-on error,warning --suppress-tags \
        initial-upload-closes-no-bugs,bad-distribution-in-changes-file "$package"
else
    echo "lintian is not installed: not run"
fi

# No maintainer script runs, and only names are taken from the host: no trigger can reach it.
root=$work/root
mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers}
cp "$database/status" "$root/var/lib/dpkg/"
[ ! -e "$database/arch" ] || cp "$database/arch" "$root/var/lib/dpkg/"
for list in "$database"/info/*.list; do
    : >"$root/var/lib/dpkg/info/${list##*/}"
done
in_root() {
    dpkg --root="$root" --force-not-root --force-script-chrootless --log="$work/dpkg.log" "$@"
}
files() {
    (cd "$root" && find . -path ./var/lib/dpkg -prune -o ! -type d -print | sort)
}
files >"$work/before"
in_root --install "$package" >/dev/null
files >"$work/installed"

for file in usr/bin/memleax usr/share/man/man1/memleax.1.gz usr/share/doc/memleax/copyright \
    usr/share/doc/memleax/changelog.gz usr/share/memleax/allocators/sqlite \
    usr/share/bash-completion/completions/memleax usr/share/zsh/vendor-completions/_memleax \
    usr/share/fish/vendor_completions.d/memleax.fish; do
    [ -s "$root/$file" ] || fail "the package has no /$file"
done
zcat "$root/usr/share/man/man1/memleax.1.gz" >"$work/page" # a pipe to grep -q may end zcat, and so this
grep -q '^\.TH "memleax" "1"' "$work/page" || fail "the man page is none"

"${machine[@]}" scripts/package-use.sh "$root" "$leaky"

in_root --purge memleax >/dev/null
files | diff "$work/before" - || fail "purged, it has left these"
dpkg --root="$root" -s memleax >/dev/null 2>&1 && fail "dpkg still knows it"
echo "built, installed, used and purged: $(basename "$package"), $(wc -l <"$work/installed") files"

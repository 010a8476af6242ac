#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Makes the Debian package of a build folder, and tries it:
#
#     scripts/package-test.sh BUILD-FOLDER LEAKY-PROGRAM
#
# lintian has nothing to say of it; it is installed into a root of its own, with the host's list of
# installed packages, so that its dependencies are checked; the program that lies there watches
# LEAKY-PROGRAM; and purged it leaves nothing. The host is not touched.
set -euo pipefail
build=$(realpath "$1")
leaky=$(realpath "$2")

work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon"; rm -rf "$work"' EXIT
fail() {
    echo "scripts/package-test.sh: $*" >&2
    exit 1
}

(cd "$work" && cpack --config "$build/CPackConfig.cmake" -B "$work/cpack" >"$work/cpack.log" 2>&1) ||
    { cat "$work/cpack.log" && fail "cpack failed"; }
package=$(find "$work/cpack" -maxdepth 1 -name '*.deb')
[ -e "$package" ] || fail "cpack made no package"
dpkg-deb --field "$package" Package Version Architecture Depends

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
cp /var/lib/dpkg/status "$root/var/lib/dpkg/"
for list in /var/lib/dpkg/info/*.list; do
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

exec {output}< <(exec "$leaky" 60)
daemon=$!
read -r -t 30 _ <&"$output"
report=$("$root/usr/bin/memleax" -e 1 -t 3 --allocators sqlite "$daemon" 2>&1)
grep -q 'shop::SessionStore::open' <<<"$report" || fail "it did not find the leak: $report"
kill -0 "$daemon" || fail "the target did not survive"

in_root --purge memleax >/dev/null
files | diff "$work/before" - || fail "purged, it has left these"
dpkg --root="$root" -s memleax >/dev/null 2>&1 && fail "dpkg still knows it"
echo "built, installed, used and purged: $(basename "$package"), $(wc -l <"$work/installed") files"

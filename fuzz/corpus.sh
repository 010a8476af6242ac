#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Makes the corpora that the fuzz targets begin with: fuzz/corpus.sh FOLDER. From the libraries of this
# machine, and a small program in each form that debug information comes in. Needs a compiler and
# binutils.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cat >tiny.cpp <<'END'
namespace outer { struct Inner { template <class T> static int twice(T n); }; }
template <class T> int outer::Inner::twice(T n) { return n + static_cast<int>(n); }
namespace { inline int leaf(int n) { volatile int kept = n; return kept * 3; } }
static inline int middle(int n) { return leaf(n) + outer::Inner::twice(n); }
extern "C" int entry(int n) { try { if (n > 7) throw n; return middle(n); } catch (int m) { return -m; } }
int main(int argc, char**) { return entry(argc); }
END
c() { # c OUTPUT OPTIONS...
    local output=$1
    shift
    if ! c++ -O2 -o "$output" tiny.cpp "$@" 2>log; then
        echo "fuzz/corpus.sh: no $output here: $(head -n 1 log)" >&2
    fi
}
mkdir elf
for dwarf in 2 3 4 5; do c elf/dwarf$dwarf -g -gdwarf-$dwarf; done
c elf/shared -g -shared -fPIC
c elf/zlib -g -gz=zlib
c elf/zlib_gnu -g -gz=zlib-gnu
c elf/types -g -gdwarf-4 -fdebug-types-section
c elf/split -g -gsplit-dwarf
c elf/no_build_id -g -Wl,--build-id=none
c elf/fixed -g -no-pie
c elf/hash -shared -fPIC -Wl,--hash-style=sysv
cat >frame.c <<'END'
int leaf(int n) { volatile int kept[n + 1]; kept[n] = n; return kept[n]; }
int main(int argc, char** argv) { return leaf(argc); }
END
cc -g -O1 -fno-asynchronous-unwind-tables -o elf/debug_frame frame.c
if command -v clang-14 >/dev/null; then
    clang-14 -g -gdwarf-5 -O1 -o elf/clang frame.c # without .debug_aranges
fi
cc -O2 -o elf/probed "$here/../fixtures/probed.c" "$here/../fixtures/probed_twin.c" -pthread
strip -o elf/stripped elf/dwarf5
objcopy --only-keep-debug elf/dwarf5 elf/only_debug
objcopy --add-gnu-debuglink=elf/only_debug elf/stripped elf/debuglink
printf 'tiny.dwz\0%020d' 1 >alt
objcopy --add-section .gnu_debugaltlink=alt elf/dwarf5 elf/altlink
# Without section headers: e_shoff (8 bytes at 0x28), e_shnum and e_shstrndx (4 bytes at 0x3c).
cp elf/hash elf/no_sections
printf '\0\0\0\0\0\0\0\0' | dd of=elf/no_sections bs=1 seek=40 conv=notrunc status=none
printf '\0\0\0\0' | dd of=elf/no_sections bs=1 seek=60 conv=notrunc status=none

library() { # what the dynamic linker would take
    ldconfig -p 2>/dev/null | sed -n "s|.*$1 .*=> ||p" | head -n 1
}
# Packages: binutils has a dwp for DWARF 4, LLVM one for DWARF 5.
package() { # package NAME TOOL COMPILER OPTIONS...
    local name=$1 tool=$2
    shift 2
    if command -v "$tool" >/dev/null && command -v "$1" >/dev/null &&
        "$@" -g -O1 -gsplit-dwarf -o "$name" frame.c 2>log; then
        "$tool" -e "$name" -o "dwo_package/$name" 2>log || true
    fi
}
mkdir dwo_package
package gcc4 dwp cc -gdwarf-4
package clang5 llvm-dwp-14 clang-14 -gdwarf-5
for target in elf_image symbolizer cfi; do
    mkdir -p "$out/$target"
    cp elf/* "$out/$target"
done
for name in libgcc_s.so.1 libz.so.1 libm.so.6 libc.so.6 libstdc++.so.6; do
    file=$(library "$name")
    [ -z "$file" ] || cp "$file" "$out/elf_image/"
    [ -z "$file" ] || cp "$file" "$out/cfi/"
done

mkdir -p "$out"/{debug_links,dwo_package,maps,perf_map,perf_record,probe_argument,process_info,names,unwind,displace,recorded_calls}
for target in maps perf_map probe_argument process_info names; do
    cp "$here/seeds/$target"/* "$out/$target"
done
# Parts, each behind a byte with its length: link (name, crc), alt link (name, id), note, .debug_info.
id=$(printf '\\%03o' {1..20})
part() { # part FORMAT: for printf
    printf "$1" >part
    printf "\\x$(printf %02x "$(stat -c %s part)")"
    cat part
}
links() {
    part "$1\\0\\0\\x12\\x34\\x56\\x78"
    part "$2\\0$id"
    part "\\4\\0\\0\\0\\x14\\0\\0\\0\\3\\0\\0\\0GNU\\0$id"
    printf '\x0b\0\0\0\5\0\1\x08\0\0\0\0'
}
cp dwo_package/* "$out/dwo_package" 2>/dev/null || true
links gone.debug ../x/gone.dwz >"$out/debug_links/gone"
links /dev/zero /dev/tty >"$out/debug_links/devices"
cp /proc/self/maps "$out/maps/self"
{
    cat /proc/self/status
    printf '\0'
    cat /proc/self/stat
    printf '\0'
    cat /proc/self/syscall 2>/dev/null || true
} >"$out/process_info/self"
for name in libstdc++.so.6 libc.so.6; do
    file=$(library "$name")
    [ -n "$file" ] || continue
    # Every 20th name, each a file.
    nm -D --defined-only "$file" | awk -v to="$out/names/$name" \
        'NR % 20 == 0 { f = to "." NR; printf "%s", $3 > f; close(f) }'
    # Code, a stack, what calls have recorded: whatever it is.
    head -c 300000 "$file" | tail -c 60000 | split -a 3 -b 64 - "$out/displace/$name."
    head -c 300000 "$file" | tail -c 60000 | split -a 3 -b 2000 - "$out/unwind/$name."
    head -c 300000 "$file" | tail -c 60000 | split -a 3 -b 2000 - "$out/recorded_calls/$name."
done

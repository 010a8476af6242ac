#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the kinds of processes that work, from what the tests have found out.

    scripts/process_table.py RESULTS           prints it, as it is in the README
    scripts/process_table.py --write RESULTS   puts it into the README and the man page
    scripts/process_table.py --check RESULTS   exits with 1 if it is not what they have
    scripts/process_table.py --rows BUILD      exits with 1 if a test that ctest knows belongs to no row

RESULTS is a folder of gtest's XML files (ctest leaves them in tests/results of the build folder). Each
test records what it has compared: counts, frames, and what leaving has left. A row has what all of its
tests have, and every test of these suites belongs to a row.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

FOLDER = pathlib.Path(__file__).resolve().parent.parent
CHECKS = [("counts", "counts"), ("frames", "frames"), ("leaving", "leaving")]
SUITES = (r"Fixtures/ExactCounts|Matrix/Allocators|UserAllocators|Libraries/\w+Allocators|"
          r"NamesOf/Rust|Go|Python|Node|Kinds/Names|Kinds/Containers")

# Kind, process, and the tests (SUITE.TEST, where SUITE has no instance's name before it).
ROWS = [
    ("programs", "C: -O0 and -O2, with and without frame pointers, PIE or not",
     r"ExactCounts.*/(alloc_all_O._(fp|nofp)_(pie|nopie)|signed_alloc_all)$"),
    ("programs", "C++: the same, with operators, containers, smart pointers",
     r"ExactCounts.*/alloc_all_cxx_O._(fp|nofp)_(pie|nopie)$"),
    ("programs", "malloc interposed (LD_PRELOAD), glibc's malloc_debug", r"ExactCounts.*_under_"),
    ("programs", "threads: many, short-lived, freeing for each other",
     r"ExactCounts.*/(signed_)?(threads16\w*|thread_churn|cross_thread_free|handed_over)$"),
    ("programs", "deep recursion, longjmp, exceptions, foreign and split stacks",
     r"ExactCounts.*/(signed_)?(recursion|longjmp_exceptions|failed_new|other_stacks|split_stack)$"),
    ("programs", "signal handlers that allocate, fork, dlopen and dlclose",
     r"ExactCounts.*/(signed_)?(signals|busy_handler\w*|forker|dlopen_plugin_250|dlopen_plugin)$"),
    ("programs", "realloc, failures, many blocks, blocks from before the attach",
     r"ExactCounts.*/(realloc_chains|failed_alloc|big_live|unknown_free)$"),
    ("allocators", "glibc, also static and static-pie",
     r"Allocators.*/(threads16|cxx_operators)(_static|_static_pie)?(_fails)?$"),
    ("allocators", "not exported, with the names in a debug file only",
     r"Allocators.*/(threads16_static|own_allocator_lib)_?stripped\w*$"),
    ("allocators", "musl, static and dynamic",
     r"(Allocators|ExactCounts).*/musl_\w+$"),
    ("allocators", "jemalloc 5.3: preloaded, linked, linked statically",
     r"Allocators.*/(threads16|cxx_operators)\w*jemalloc\w*$"),
    ("allocators", "tcmalloc and tcmalloc_minimal (gperftools 2.10): likewise",
     r"Allocators.*/(threads16|cxx_operators)\w*tcmalloc\w*$"),
    ("allocators", "mimalloc 2.0: preloaded, linked",
     r"Allocators.*/(threads16|cxx_operators)\w*mimalloc\w*$"),
    ("allocators", "two in a process; one in a plugin, exported or not, or by --prefix",
     r"(Allocators|ExactCounts).*/own_allocator(?!_libstripped)\w*$"),
    ("allocators", "your own, and resources (--alloc, --free, --resource)", r"UserAllocators\.(Each|AFile)"),
    ("allocators", "GLib, APR, SQLite, OpenSSL (--allocators)", r"ReadyAllocators"),
    ("allocators", "jemalloc's and mimalloc's own names (mallocx, mi_malloc)",
     r"PreloadedAllocators"),
    ("languages", "Rust: the system's allocator, jemallocator; both manglings", r"Rust\."),
    ("languages", "Go with cgo: the C side", r"Go\."),
    ("languages", "Python: large objects; all with PYTHONMALLOC=malloc", r"Python\."),
    ("languages", "Node.js: buffers", r"Node\."),
    ("names", "DWARF 2 to 5, compressed, split (.dwo, .dwp), dwz",
     r"Names.*/(plain|dwarf_.|compressed\w*|split\w*|dwp_\w+|dwz\w*)$"),
    ("names", "gcc and clang; ld, gold and lld; PIE, static, static-pie, LTO",
     r"Names.*/(clang|some_in_aranges|lld|gold|no_pie|static_\w+|lto|thin_lto|function_sections|no_build_id|ifunc)$"),
    ("names", "segments of other kinds, prelinked", r"Names.*/(odd_segments|one_code_segment|prelinked)$"),
    ("names", "separate debug files: build-id, .gnu_debuglink, -d, --debug-dir",
     r"Names.*/(debuglink\w*|debug_info\w*|debug_dir\w*)$"),
    ("names", ".symtab, .gnu_debugdata, .dynsym, or none",
     r"Names.*/(exported_only|symbols_only|mini_debug_info|stripped)$"),
    ("names", "files that are deleted or replaced, memfd", r"Names.*/(deleted|replaced\w*|memfd)$"),
    ("containers", "user, mount and PID namespaces; by the number inside",
     r"Containers.*/(user_mount_pid|mount_pid_only|debug_file_by_build_id|number_inside)$"),
    ("containers", "rootless, watched by their user or by root", r"Containers.*/rootless\w*$"),
    ("containers", "from an ephemeral container beside it", r"Containers.*/ephemeral_container$"),
    ("containers", "after chroot(2)", r"Containers.*/chroot\w*$"),
]
SKIPPED = 77  # as ctest is told
# What tests of these suites are about something else.
OTHERS = r"UserAllocators\.WhatIsNowhereIsSaid|Node\.FunctionsOfJavaScript"


def read_results(folder):
    """Name of each test that was run, and what it has compared; None if it failed."""
    results = {}
    for path in sorted(pathlib.Path(folder).rglob("*.xml")):
        for case in xml.parse(path).getroot().iter("testcase"):
            suite, name = case.get("classname"), case.get("name")
            if not re.fullmatch(SUITES, suite) or case.get("status") == "notrun":
                continue
            if case.get("result") == "skipped" or case.find("skipped") is not None:
                continue
            done = {each.get("name") for each in case.iter("property")}
            full = suite.split("/")[-1] + "." + name
            results[full] = None if case.find("failure") is not None else done
    return results


def check_homes(names):
    homeless = [name for name in names
                if not re.search(OTHERS, name) and not any(re.search(r[2], name) for r in ROWS)]
    if homeless:
        sys.exit("in no row of scripts/process_table.py: " + ", ".join(homeless))


def known_tests(build):
    """The tests of SUITES by ctest's list, which is there before any of them is run."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only"], check=True,
                            capture_output=True, text=True).stdout
    names = []
    for suite, name in re.findall(r"^ +Test +#\d+: ([^.\s]+)\.(\S+)$", listed, re.MULTILINE):
        if re.fullmatch(SUITES, suite):
            names.append(suite.split("/")[-1] + "." + name)
    if not names:
        print(f"no test of the table has been built in {build}")
        sys.exit(SKIPPED)
    return names


def make_rows(results):
    check_homes(results)
    rows = []
    for kind, process, pattern in ROWS:
        tests = [done for name, done in results.items()
                 if re.search(pattern, name) and not re.search(OTHERS, name)]
        if not tests:
            sys.exit(f"no test of '{process}' was run")
        if None in tests:
            sys.exit(f"a test of '{process}' has failed")
        rows.append((kind, process, [all(key in done for done in tests) for key, _ in CHECKS],
                     len(tests)))
    return rows


def markdown(rows):
    text = "| | process | counts | frames | leaving | tests |\n|---|---|---|---|---|---|\n"
    last = ""
    for kind, process, checks, tests in rows:
        cells = " | ".join("yes" if each else "" for each in checks)
        text += f"| {kind if kind != last else ''} | {process} | {cells} | {tests} |\n"
        last = kind
    return text


def scdoc(rows):
    """A list for each kind; underscores and the like mean something to scdoc."""
    text, last = "", ""
    for kind, process, checks, _ in rows:
        if kind != last:
            text += f"{chr(10) if last else ''}*{kind.capitalize()}*\n"
            last = kind
        compared = ", ".join(name for each, (_, name) in zip(checks, CHECKS) if each)
        plain = re.sub(r"([_*\\])", r"\\\1", process)
        text += f"\t- {plain} ({compared})\n"
    return text


def marked(path, begin, end, text):
    """The file's text, with what is between its marks replaced."""
    before = path.read_text()
    pattern = re.escape(begin) + r"\n.*?" + re.escape(end)
    if not re.search(pattern, before, re.DOTALL):
        sys.exit(f"{path} has no place for the table")
    return before, re.sub(pattern, lambda _: f"{begin}\n{text}{end}", before, flags=re.DOTALL)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--check", action="store_true")
    group.add_argument("--write", action="store_true")
    group.add_argument("--rows", action="store_true")
    parser.add_argument("results", metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.rows:
        check_homes(known_tests(arguments.results))
        return
    rows = make_rows(read_results(arguments.results))
    if not arguments.check and not arguments.write:
        print(markdown(rows), end="")
        return
    places = [(FOLDER / "README.md", "<!-- made by scripts/process_table.py -->", "<!-- end -->",
               markdown(rows)),
              (FOLDER / "man/memleax.1.scd.in", "; made by scripts/process_table.py", "; end",
               scdoc(rows) + "\n")]
    for path, begin, end, text in places:
        before, after = marked(path, begin, end, text)
        if arguments.write:
            path.write_text(after)
        elif before != after:
            sys.exit(f"{path}: the table is not what the tests say; "
                     f"run scripts/process_table.py --write {arguments.results}")


if __name__ == "__main__":
    main()

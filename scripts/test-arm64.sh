#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Cross-builds memleax, its tests and its fixtures for arm64, and runs the tests on Debian's arm64
# kernel in an emulated machine: all on a Cortex-A72 (no LSE, no pointer authentication), and those
# that depend on the CPU on qemu's "max" as well (LSE, PAC, BTI, SVE). Those that watch run with the
# int3 engine, too. The Debian package is made, and used there. Fetches what it needs from Debian's archive,
# by the sources of the host; build/arm64-machine keeps it. No kernel on silicon has run these tests.
#
# scripts/test-arm64.sh [-c CPU] [-k KERNEL] [-q | TEST...], as in: scripts/test-arm64.sh -c cortex-a72 sleeper_test
# -q, as .ci/run has it, is a choice: what knows the CPU, or the kernel's side of a stop. All of it takes
# over half an hour on two cores.
# CPU may be max,pauth-impdef=on, too: plain "max" takes 20 s to boot. KERNEL is a linux-image package
# instead of Debian 12's: the arm64-16k kernel of bookworm-backports has pages of 16 KiB (CPU max only). Or it
# is a folder that scripts/arm64/kernel64k.sh has made of one with pages of 64 KiB.
set -euo pipefail
cd "$(dirname "$0")/.."

cpus=(cortex-a72 "max,pauth-impdef=on")
kernel=
choice=
while getopts c:k:q option; do
    case $option in
        c) cpus=("$OPTARG") ;;
        k) kernel=$(realpath "$OPTARG") ;;
        q) choice=yes ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

# Those that watch nobody, and are over in no time: one boot for all of them.
quick=(abandonable_mutex addr_range agent allocator_api allocator_search block_index block_links blocking_descriptors call_follower callgrind_report code_patch command_problem common_offset console copyable coverage debug_symbols delivered_tickets demangle exit_signal fault_account file_data fill_report first_sentence folded_name
    folded_report freed_blocks function_name function_part glibc_walk heap_view growth_text holders hostile_names huge_pages inner_entries intervals jemalloc_books json_report kernel_pointers large_vector leak_check_report
    live_blocks log look_pause mallocng_walk mapping_flags maps memory_look memory_shortage missing_lines module_mailbox nesting options pending_exec perf_records place_text pprof_report printable probe_account
    process_account process_list processes_sharing_memory reachability report report_modules resident_pages restless_threads restored_process ring_reader sdt_probes session_printer shared_tracker signal_room signal_turn stack_table stats_table stop_cost stop_queue
    stored_memory thread_pointers thread_signals thread_table threshold tick_pace told_calls told_of_looks touched_memory tracer tracked_blocks tracker tracker_errors tracker_expiry tracker_realloc unwind_cfi unwind_expression unwind_rule
    unit_ranges usage_error walk_comparison wrappers
    arm64_displace arm64_entry arm64_frame arm64_operand)
# The longest first, so that both cores are busy to the end.
long=(exact_counts check transfers sleeper signals names left_as_found user_allocators ends exec follow_forks)
# On the CPU with pointer authentication and SVE as well: unwinding, what stands in slots, what we
# leave behind. NAME:FILTER is as --gtest_filter has it.
again=("exact_counts:*igned*:*guarded*" left_as_found own_death unwind_walk unwind_cfi unwind_expression unwind_rule
    arm64_displace arm64_entry arm64_frame daemons discarded_registers)
# With the engine that is not the default, on the first CPU: all that an engine has to do with, or these.
by_int3=()
# The host's run has them: what needs a browser, what computes for minutes and knows no CPU, and what
# makes more stops than the machine serves (left_as_found has visits at random moments, too).
elsewhere=(completions html_browser html_headline html_report large_report many_blocks long_session tracker_random verdict_streams
    comes_and_goes_stress)
# All but this: 16 threads that wait for each other all the time are not all known to be outside of a
# transfer within 10 s there, and --leak-check refuses them. And this: one that does nothing but dlopen
# waits for the host's files 1,700 times a second (9p), so that it may be refused for the same reason.
partly=("leak_check:-*OfThreadsInMalloc*" "killed_anywhere:-*WithItsGuardian*dlopen_dlclose")
# -q: instructions and registers, unwinding, system calls that are interrupted, signals, forks, what is
# left behind; and, of what knows no CPU, where the sign of char, a lock or the order of bytes could matter.
if [ -n "$choice" ]; then
    # These watch, and for seconds only, as a boot takes.
    quick=(discarded_registers earlier_calls pending_exception pending_exec remote_calls way_back
        abandonable_mutex agent allowed_tracer block_index code_patch exit_signal glibc_walk kernel_pointers shared_tracker
        signal_room thread_signals tracker while_seizing unwind_cfi unwind_expression unwind_rule arm64_displace arm64_entry arm64_frame)
    # One or two calls of each way in which the kernel begins one again, or cuts it short, one or two programs
    # of each kind, and no signals by the hundred thousand, which take minutes there.
    long=("exact_counts:Recursion.*:*_O2_fp_pie:*/alloc_all_cxx_O2_nofp_pie:*plugin_250:*split_stack:*other_stacks:*/realloc_chains:*failed_new:*/threads16:*/longjmp*:*/thread_churn"
        "left_as_found:-*threads16*:*cross_thread*:*forker_16*:*mixed_work*:*/signals:*churn*:*cxx*:*longjmp*"
        "leak_check:-*OfThreadsInMalloc*:*OfAThousandThreads:*_auto:*_copy:*_stripped_*:*musl_dynamic_*:*_static_fork"
        "sleeper:*/read:*/futex:*/epoll_wait:*/poll:*/nanosleep:*/sigsuspend:*AHandler*"
        "trap_action:-*_static_*:*musl_*:*interposed*:*FirstInstruction*" "transfers:*/write:*IsLeftAlone*"
        "vfork:-*Followed*:*IsFound*:*ChildIsStopped*:*AfterALaunch*")
    known=(agent_memory daemons exec generated_code inline_engine "killed_anywhere:*many_threads:*static_pie:*vfork_spawn:*exceptions"
        own_death "probes:Probes.EachCall*:*Semaphore*:*AtAnAlloc*:*ThatIsFollowed:*IsKilledLeaves*"
        "signals:-*Queued*:*Watched/own" unwind_walk "watched_heap:-*ThreadsInMalloc*:*_copy" "${quick[@]}")
    again=("exact_counts:*igned*:*guarded*-*signals*" "left_as_found:*/forker" unwind_cfi arm64_displace arm64_entry arm64_frame
        discarded_registers)
    by_int3=("exact_counts:*/alloc_all_O2_nofp_pie:*/threads16:*/recursion" "own_death:*/survivor*" "left_as_found:*/forker")
fi

contains() { # contains WORD WORD...
    local word=$1
    shift
    [[ " $* " == *" $word "* ]]
}
if [ -n "$choice" ]; then
    all=("${known[@]}")
else
    mapfile -t all < <(find tests tests/aarch64 -maxdepth 1 -name "*_test.cpp" -printf '%f\n' | sort | sed 's/_test\.cpp$//')
fi
mapfile -t all < <(for name in "${long[@]}" "${all[@]}"; do
    if ! contains "$name" "${elsewhere[@]}"; then
        for part in "${partly[@]}"; do
            [ "$name" != "${part%%:*}" ] || name=$part
        done
        echo "$name"
    fi
done | awk '!seen[$0]++')
package=yes
if [ $# -gt 0 ]; then
    package=
    all=("${@%_test}")
    quick=()
    again=("${all[@]}")
fi
if [ ${#by_int3[@]} -eq 0 ]; then
    mapfile -t without_engine < <(sed -n '/^set(without_int3/,/)/{s/.*(without_int3//;s/)//;p}' tests/CMakeLists.txt |
        xargs -n 1)
    for name in "${all[@]}"; do
        contains "${name%%:*}" "${quick[@]}" "${without_engine[@]}" || by_int3+=("$name")
    done
fi
names=("${all[@]%%:*}")
for name in "${names[@]}"; do
    [ -e "tests/${name}_test.cpp" ] || [ -e "tests/aarch64/${name}_test.cpp" ] ||
        { echo "scripts/test-arm64.sh: there is no test ${name}_test" >&2 && exit 2; }
done

scripts/setup.sh arm64
scripts/arm64/packages.sh
if [ -z "$kernel" ]; then
    scripts/arm64/machine.sh
elif [ -d "$kernel" ]; then
    export MEMLEAX_ARM64_BOOT=$kernel
    scripts/arm64/machine.sh "$kernel/vmlinuz" "$kernel"
else
    MEMLEAX_ARM64_BOOT=$PWD/build/arm64-machine/$(basename "$kernel" .deb)
    export MEMLEAX_ARM64_BOOT
    scripts/arm64/machine.sh "$kernel" "$MEMLEAX_ARM64_BOOT"
fi
# -O3 compiles for half as long again. (-O1 warns of optionals that GCC 12 does not see through.)
optimization=-O3
[ -z "$choice" ] || optimization=-O2
cmake --preset arm64 -DCMAKE_CXX_FLAGS_RELEASE="$optimization -DNDEBUG" --log-level=WARNING >/dev/null
cmake --build --preset arm64 --parallel "$(nproc)" --target memleax fixtures "${names[@]/%/_test}" \
    ${package:+man shell_completions} -- --quiet
echo "-- built after $SECONDS s"

# A line for each boot: the CPU and tests. The machine has one CPU: one host thread would be for two,
# and they take turns of up to 100 ms, which makes most tests twice as slow.
jobs=()
for cpu in "${cpus[@]}"; do
    together=()
    tests=("${again[@]}")
    [ "$cpu" != "${cpus[0]}" ] || tests=("${all[@]}")
    for name in "${tests[@]}"; do
        if contains "$name" "${quick[@]}"; then
            together+=("$name")
        else
            jobs+=("$cpu $name")
        fi
    done
    if [ ${#together[@]} -gt 0 ]; then
        jobs+=("$cpu ${together[*]}")
    fi
    if [ "$cpu" = "${cpus[0]}" ]; then
        for name in "${by_int3[@]}"; do
            jobs+=("$cpu int3/$name")
        done
    fi
done

if [ -n "$package" ]; then
    jobs+=(package)
fi

# Two machines at a time, a boot (four seconds) for each: each keeps one core busy.
results=$PWD/build/arm64/results
rm -rf "$results"
mkdir -p "$results"
run_job() { # run_job CPU TEST...
    local cpu=$1 log
    if [ "$cpu" = package ]; then
        scripts/package-test.sh build/arm64 build/arm64/fixtures/leaky_daemon >"$results/package" 2>&1 ||
            echo "scripts/package-test.sh: status $?, see $results/package" >>"$results/failed"
        return
    fi
    shift
    log=${1%%:*}
    log=$results/${cpu%%,*}:${log/\//-}
    scripts/arm64/boot.sh "$cpu" 900 scripts/arm64/run-tests.sh 600 "$@" >"$log" 2>&1 </dev/null ||
        echo "$cpu: $*: status $?, see $log" >>"$results/failed"
}
export -f run_job
export results
printf '%s\n' "${jobs[@]}" | xargs -P 2 -L 1 bash -c 'run_job "$@"' run_job

# "== exec_test: status 0, 20 s; PASSED 9 test SKIPPED 1 test", as run-tests.sh says it.
for log in "$results"/*:*; do
    cpu=${log##*/}
    sed -n "s/^== \([a-z0-9_/]*\): status \([0-9]*\), \([0-9]*\) s; \(.*\)/${cpu%%:*} \1 \2 \3 \4/p" "$log"
done | sort -k2,2 -k1,1 | awk '
{
    passed = failed = skipped = 0
    for (i = 5; i < NF; i += 3) {
        n = $(i + 1)
        if ($i == "PASSED") passed = n
        else if ($i == "FAILED") failed = n
        else skipped = n
    }
    printf "%-35s %-11s %s%4d passed%s%s, %3d s\n", $2, $1, $3 != 0 ? "FAILED " : "       ", passed,
        failed ? ", " failed " failed" : "", skipped ? ", " skipped " skipped" : "", $4
    sums["passed"] += passed
    sums["failed"] += failed
    sums["skipped"] += skipped
}
END {
    printf "arm64: %d passed, %d failed, %d skipped\n", sums["passed"], sums["failed"], sums["skipped"]
}'
[ -z "$package" ] || tail -n 1 "$results/package"
echo "-- skipped, because:"
sed -n 's/^-- skipped: //p' "$results"/*:* | sort | uniq -c
echo "-- done after $SECONDS s"
if [ -e "$results/failed" ]; then
    cat "$results/failed"
    exit 1
fi

#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# In the test machine: runs test programs of build/arm64/tests one after another, and tells of each
# how it ended. scripts/arm64/run-tests.sh SECONDS-FOR-EACH [ENGINE/]NAME[:FILTER]...
tests=$(cd "$(dirname "$0")/../../build/arm64/tests" && pwd) || exit
seconds=$1
shift
export MEMLEAX_TEST_SHARE=10 # tests/share_support.hpp
failed=0
for spec; do
    unset MEMLEAX_TEST_ENGINE
    case ${spec%%:*} in # a filter has slashes of its own
        */*)
            export MEMLEAX_TEST_ENGINE="${spec%%/*}"
            spec=${spec#*/}
            ;;
    esac
    name=${spec%%:*}_test
    filter=${spec#"${spec%%:*}"}
    filter=${filter:-:*}
    begin=$(cut -d. -f1 /proc/uptime)
    mkdir -p "/tmp/$name" && cd "/tmp/$name" || exit 1
    timeout --kill-after=5 "$seconds" "$tests/$name" --gtest_filter="${filter#:}" >"/run/$name.log" 2>&1
    status=$?
    took=$(($(cut -d. -f1 /proc/uptime) - begin))
    if [ $status -ne 0 ]; then
        failed=1
        cat "/run/$name.log"
        [ $status -eq 124 ] && echo "$name: not done within $seconds s"
    fi
    # The line after "FILE:LINE: Skipped" is why.
    sed -n '/: Skipped$/{n;s/^/-- skipped: /p}' "/run/$name.log"
    sed -n 's/^\[ *OK \] \(.*\) (\([0-9]*\) ms)$/\2 ms \1/p' "/run/$name.log" | sort -rn | head -5 |
        sed 's/^/-- slowest: /'
    # As gtest counts: "[  PASSED  ] 12 tests." and "[  SKIPPED ] 2 tests, listed below:".
    counts=$(sed -n 's/^\[  \([A-Z]*\) *\] \([0-9]* test\).*/\1 \2/p' "/run/$name.log" | sort -u | tr '\n' ' ')
    echo "== ${MEMLEAX_TEST_ENGINE:+$MEMLEAX_TEST_ENGINE/}$name: status $status, $took s; $counts"
done
exit $failed

// SPDX-License-Identifier: GPL-3.0-or-later
// Every form of a report of 10^5 call stacks of 50 frames, and as many of page faults and of lost
// blocks, written in bounded memory.
#include "../bench/large_report.hpp"

#include <algorithm>
#include <cstdio>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/clock.hpp"
#include "sanitizer_support.hpp"

namespace memleax {
namespace {

/// As if all that was allocated were touched, and still there.
PageFaultReport faults_of(const Report& report) {
    PageFaultReport faults;
    faults.resident.emplace();
    for (const CallStackReport& stack : report.callstacks) {
        FaultStackReport& touching = faults.stacks.emplace_back();
        touching.minor = stack.alloc.blocks;
        TouchedCount& touched = touching.touched.emplace_back();
        touched.kind = TouchedKind::heap;
        touched.minor = touching.minor;
        touching.still_bytes = stack.live.bytes;
        touching.frames = stack.frames;
        touching.end = stack.end;
    }
    return faults;
}

/// As if nothing pointed to any of it in the end.
LeakFindings leaks_of(const Report& report) {
    LeakFindings found;
    found.complete = true;
    for (const CallStackReport& stack : report.callstacks) {
        LeakRecord& record = found.records.emplace_back();
        record.loss = LossClass::possible;
        record.count = stack.live;
        record.callstack = stack.id;
        record.frames = stack.frames;
        record.end = stack.end;
    }
    return found;
}

class LargeReport : public testing::TestWithParam<const ReportFormat*> {};

TEST_P(LargeReport, TakesLessThanAGibibyte) {
    const ReportFormat& format = *GetParam();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        Report report = large_report();
        report.page_faults = faults_of(report);
        report.leak_check = leaks_of(report);
        CountingSink sink;
        const MonotonicNs begin = monotonic_now();
        format.write(report, sink);
        std::printf("%s: %.2f s, %.1f MB\n", std::string(format.name).c_str(),
                    seconds(monotonic_now().value() - begin.value()),
                    static_cast<double>(sink.bytes) / 1e6);
        std::fflush(stdout);
        // Every form has more to say of a call stack than this.
        _exit(sink.bytes > report.callstacks.size() * 10 ? 0 : 1);
    }
    int status = -1;
    rusage usage{};
    ASSERT_EQ(wait4(child, &status, 0, &usage), child);
    EXPECT_EQ(status, 0);
    constexpr long kGibibyteInKib = 1024L * 1024;
    std::printf("peak: %ld MiB\n", usage.ru_maxrss / 1024);
    if (!test::kIsSanitized) {
        EXPECT_LT(usage.ru_maxrss, kGibibyteInKib);
    }
}

std::vector<const ReportFormat*> formats() {
    std::vector<const ReportFormat*> result;
    for (const ReportFormat& format : report_formats()) {
        if (format.write != nullptr) {
            result.push_back(&format);
        }
    }
    return result;
}

INSTANTIATE_TEST_SUITE_P(Formats, LargeReport, testing::ValuesIn(formats()),
                         [](const auto& format) {
                             std::string name(format.param->name);
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

} // namespace
} // namespace memleax

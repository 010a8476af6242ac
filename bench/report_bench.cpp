// SPDX-License-Identifier: GPL-3.0-or-later
// What every form of a large report takes: each in a process of its own, with a model of its own.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "large_report.hpp"
#include "memleax/base/clock.hpp"

namespace {

using namespace memleax;

double peak_mib() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// On a machine that others use too, the steadier figure.
double cpu_seconds() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

void measure(const ReportFormat& format) {
    const Report report = large_report();
    const double model = peak_mib();
    CountingSink sink;
    const double cpu_begin = cpu_seconds();
    const MonotonicNs begin = monotonic_now();
    format.write(report, sink);
    std::printf("%-14s %8.2f s (%.2f s of CPU) %10.1f MB written %8.0f MiB, of it the model %.0f\n",
                std::string(format.name).c_str(), seconds(monotonic_now().value() - begin.value()),
                cpu_seconds() - cpu_begin, static_cast<double>(sink.bytes) / 1e6, peak_mib(),
                model);
}

} // namespace

/// report_bench [FORMAT]...
int main(int argc, char** argv) {
    const std::vector<std::string_view> wanted(argv + 1, argv + argc);
    std::printf("a report of 10^5 call stacks of 50 frames\n");
    for (const ReportFormat& format : report_formats()) {
        const bool is_wanted =
            wanted.empty() || std::find(wanted.begin(), wanted.end(), format.name) != wanted.end();
        if (format.write == nullptr || !is_wanted) {
            continue;
        }
        std::fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            measure(format);
            std::fflush(stdout);
            _exit(0);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) {
            std::fprintf(stderr, "report_bench: %s failed\n", std::string(format.name).c_str());
            return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}

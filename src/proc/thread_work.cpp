// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/thread_work.hpp"

#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "memleax/base/clock.hpp"
#include "named_numbers.hpp"
#include "proc_file.hpp"
#include "stat_fields.hpp"

namespace memleax {

std::string thread_folder(Tid pid, Tid tid) {
    return fmt::format("/proc/{}/task/{}/", pid.value(), tid.value());
}

std::optional<ExecutedTicks> try_read_executed_ticks(const std::string& folder) {
    const auto stat = try_read_proc_file(folder + "stat");
    const auto fields = stat ? stat_fields(*stat) : std::vector<std::string_view>();
    constexpr std::size_t kUser = 14 - 3; // field 14
    if (fields.size() <= kUser + 1) {
        return std::nullopt;
    }
    return ExecutedTicks{leading_number(fields[kUser]).value_or(0),
                         leading_number(fields[kUser + 1]).value_or(0)};
}

std::int64_t executed_ns(const std::string& folder) {
    const auto schedstat = try_read_proc_file(folder + "schedstat");
    if (schedstat && !schedstat->empty() && (*schedstat)[0] != '0') {
        return std::strtoll(schedstat->c_str(), nullptr, 10); // its first number
    }
    static const long ticks_per_second = sysconf(_SC_CLK_TCK);
    const ExecutedTicks ticks = try_read_executed_ticks(folder).value_or(ExecutedTicks{});
    return static_cast<std::int64_t>(ticks.sum()) * (kNsPerSecond / ticks_per_second);
}

std::uint64_t times_slept(const std::string& folder) {
    const auto status = try_read_proc_file(folder + "status");
    return status ? named_number(*status, "voluntary_ctxt_switches:").value_or(0) : 0;
}

std::optional<std::uint64_t> try_read_write_calls(const std::string& folder) {
    const auto io = try_read_proc_file(folder + "io");
    return io ? named_number(*io, "syscw:") : std::nullopt;
}

} // namespace memleax

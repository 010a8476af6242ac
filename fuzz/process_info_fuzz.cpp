// SPDX-License-Identifier: GPL-3.0-or-later
// The texts of /proc/PID/status, stat and syscall, divided by NULs. A process chooses its name.
#include <optional>

#include "fuzz_support.hpp"
#include "memleax/proc/process_info.hpp"

using namespace memleax;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view rest = fuzz::text_of({data, size});
    const auto part = [&rest] {
        const std::string_view taken = rest.substr(0, rest.find('\0'));
        rest.remove_prefix(std::min(taken.size() + 1, rest.size()));
        return std::string(taken);
    };
    const std::string status = part();
    const std::string stat = part();
    const std::string call = part();
    if (const auto info = parse_process_info(status, stat)) {
        FUZZ_CHECK(info->comm.size() <= status.size());
        FUZZ_CHECK(info->state != '\0');
    }
    if (const auto kernel = parse_kernel_state(stat, call)) {
        FUZZ_CHECK(!kernel->system_call || *kernel->system_call >= 0);
    }
    return 0;
}

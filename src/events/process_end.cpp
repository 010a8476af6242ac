// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/events/process_end.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

namespace memleax {

std::string end_text(std::optional<int> status) {
    if (!status) {
        return "not watched any more";
    }
    return WIFSIGNALED(*status) ? fmt::format("killed by signal {}", WTERMSIG(*status))
                                : fmt::format("exit status {}", WEXITSTATUS(*status));
}

int shell_status(int status) {
    constexpr int kKilled = 128;
    return WIFSIGNALED(status) ? kKilled + WTERMSIG(status) : WEXITSTATUS(status);
}

} // namespace memleax

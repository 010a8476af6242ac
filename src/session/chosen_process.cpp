// SPDX-License-Identifier: GPL-3.0-or-later
#include "chosen_process.hpp"

#include <utility>

#include "memleax/proc/pid_namespace.hpp"

namespace memleax {

Result<Tid> chosen_process(const SessionOptions& options) {
    if (auto proc = check_proc_is_ours(); !proc) {
        return std::move(proc).error();
    }
    const Tid pid(options.pid.value_or(0));
    if (options.ns_pid) {
        return find_in_pid_namespace(pid, *options.ns_pid);
    }
    return pid;
}

} // namespace memleax

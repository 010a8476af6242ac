// SPDX-License-Identifier: GPL-3.0-or-later
#include "thaw.hpp"

#include <poll.h>

#include "memleax/base/log.hpp"
#include "memleax/proc/freezer.hpp"

namespace memleax {

void await_thaw(Tid pid, const std::function<void()>& meanwhile) {
    auto freezer = file_of_freezer(pid);
    if (freezer) {
        log_warning("process {} has its own code back, but its control group is frozen ({}): it "
                    "can be left when that is thawed",
                    pid.value(), *freezer);
    }
    constexpr int kBetweenLooksMs = 20;
    for (; freezer; freezer = file_of_freezer(pid)) { // not any more, if it is killed
        meanwhile();
        poll(nullptr, 0, kBetweenLooksMs);
    }
}

} // namespace memleax

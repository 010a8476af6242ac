// SPDX-License-Identifier: GPL-3.0-or-later
#include "return_watch.hpp"

#include <string>

#include "memleax/log.hpp"

namespace memleax {

bool ReturnWatch::watch(Tid tid, CodeAddr return_address) {
    if (Breakpoint* known = breakpoints_.find(return_address)) {
        known->is_return = true;
        return true;
    }
    const auto unwatched = unwatched_.find(return_address);
    if (unwatched != unwatched_.end()) {
        ++unwatched->second;
        return false;
    }
    // Generated code is not patched: it may be moved, with our breakpoint in it, or thrown away and
    // its place be used for other bytes, which we would then "restore".
    std::string problem = "it is not in a mapped file";
    if (modules_.find(return_address) != nullptr) {
        auto inserted = breakpoints_.insert(return_address, tid);
        if (inserted) {
            (*inserted)->is_return = true;
            return true;
        }
        problem = inserted.error().message();
    }
    log_warning("calls of the allocator that return to {:#x} are not seen: {}",
                return_address.value(), problem);
    unwatched_.emplace(return_address, 1);
    return false;
}

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/robust_list.hpp"

#include <cstddef>

#include <sys/syscall.h>
#include <unistd.h>

namespace memleax {

std::uint64_t robust_list_head(Tid tid) {
    std::uint64_t head = 0;
    std::size_t size = 0;
    return syscall(SYS_get_robust_list, tid.value(), &head, &size) == 0 ? head : 0;
}

} // namespace memleax

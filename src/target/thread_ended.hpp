// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cerrno>

#include <fmt/format.h>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// What a request about a thread fails with that is gone.
inline Error thread_ended(Tid tid) {
    return Error(fmt::format("thread {} has ended", tid.value()), ESRCH);
}

} // namespace memleax

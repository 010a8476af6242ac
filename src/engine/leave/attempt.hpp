// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <exception>

#include "memleax/base/error.hpp"
#include "memleax/base/thrown_text.hpp"

namespace memleax {

/// For what the guardian does for one process of several: what it throws, as there is no memory or
/// no thread to be had, is a failure like others, and keeps nobody else from being put back.
template <typename Work> Result<void> attempt(const Work& work) {
    try {
        return work();
    } catch (const std::exception& broken) {
        return Error(thrown_text(broken));
    }
}

} // namespace memleax

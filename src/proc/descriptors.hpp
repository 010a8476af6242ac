// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>
#include <string>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// `check` is called for each descriptor of a process, with what it is (as "socket:[4711]") and the
/// path of its fdinfo (proc(5)), until it fails. Fails as that does, or if they cannot be listed.
Result<void> check_descriptors(
    Tid pid,
    const std::function<Result<void>(const std::string& name, const std::string& info)>& check);

} // namespace memleax

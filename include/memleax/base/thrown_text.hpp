// SPDX-License-Identifier: GPL-3.0-or-later
/// What is said of an exception that ends a piece of work.
#pragma once

#include <exception>
#include <string>

namespace memleax {

/// In words for the user, where memory or a thread could not be had, which is the user's to mend;
/// else "internal error: ...": a bug of ours.
[[nodiscard]] std::string thrown_text(const std::exception& thrown);

} // namespace memleax

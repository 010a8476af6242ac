// SPDX-License-Identifier: GPL-3.0-or-later
/// What is known of a module's file, for people.
#pragma once

#include <optional>
#include <string>

namespace memleax {

/// A language whose objects are, all or in part, in a heap of its runtime's own, which no allocator
/// is asked for.
enum class LanguageRuntime { go, python, v8, php, ruby, java, chromium };

struct ModuleDescription {
    /// Where its symbols, lines and unwind tables come from, or why there are none.
    std::string files;
    /// Of the runtime that is in this module, if there is one.
    std::optional<LanguageRuntime> runtime = {};
};

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
/// A JSON report in the terms of a fixture's truth: live blocks by the function that allocated.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "process_support.hpp"

namespace memleax::testing {

/// The function that a call stack is booked on: its first frame that is not the C or C++ library's,
/// nor the dynamic linker's, nor an allocator (a fixture may bring one), nor an instance of a
/// template of the standard library. Without parameters.
std::string allocating_function(const nlohmann::json& call_stack);

/// The names of the program's own functions in a call stack, from the outermost one to
/// allocating_function(), separated by blanks.
std::string own_functions(const nlohmann::json& call_stack);

/// For scripts/process_table.py: this test has compared the "counts", the own "frames" of the
/// program, or what "leaving" has left.
void record_compared(const std::string& what);

/// For blocks that dlopen itself keeps as long as the module is there.
inline const std::string kDynamicLinker = "(dynamic linker)";

/// Live blocks of all call stacks. Those without any are left out.
Leaks live_leaks(const nlohmann::json& report);

/// Of a complete leak check: what it has found of each class.
Leaks classes_of(const nlohmann::json& report);
/// Without what was there before.
Leaks difference(Leaks after, const Leaks& before);

/// From when on memleax has watched: then what the dynamic linker allocates for a program that
/// begins, and for its threads, is live as well.
enum class WatchedFrom { attach, start };

/// What memleax counts while `answer` was given must be what it says: live blocks of each function,
/// and of no other, the numbers that add up to them, and the program's own functions of each call
/// stack from the first to the last. Adds gtest failures.
void expect_truth(const nlohmann::json& report, const FixtureAnswer& answer,
                  WatchedFrom from = WatchedFrom::attach);

} // namespace memleax::testing

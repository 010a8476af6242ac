// SPDX-License-Identifier: GPL-3.0-or-later
/// A Judgement in words.
#pragma once

#include <string>

#include "memleax/analysis/verdict.hpp"

namespace memleax {

/// "too early", "settled", ...
const char* describe(Verdict verdict);

/// The figures that the verdict rests on: "5 blocks left, none of the last 60 s". "" if there was
/// nothing to judge.
std::string why(const Judgement& judgement);

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
/// What Tab offers at the prompt.
#pragma once

#include <string>
#include <vector>

#include "command.hpp"

namespace memleax {

/// Candidates for `word`, of which those that begin with it count. `before` is the line up to it.
std::vector<std::string> complete(CommandContext& context, const std::string& before,
                                  const std::string& word);

} // namespace memleax

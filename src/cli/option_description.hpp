// SPDX-License-Identifier: GPL-3.0-or-later
/// The options as data, for the shells' completions.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace memleax {

struct OptionDescription {
    std::vector<std::string> names;   ///< "-F", "--format": the short one first
    std::string value;                ///< placeholder of its value; empty for a flag
    std::string help;                 ///< as --help has it, with line breaks
    std::vector<std::string> choices; ///< all values there are, if they are known
    bool repeatable = false;
};

/// Values by the long name of their option.
using OptionChoices = std::map<std::string, std::vector<std::string>>;

/// Of the command line's parser.
std::vector<OptionDescription> describe_options(const CLI::App& app, const OptionChoices& choices);
/// Of memleax, from the declarations that parse its command line (options.cpp), as --help orders
/// them.
std::vector<OptionDescription> describe_options();

} // namespace memleax

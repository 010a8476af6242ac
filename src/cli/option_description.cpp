// SPDX-License-Identifier: GPL-3.0-or-later
#include "option_description.hpp"

#include <utility>

#include <CLI/CLI.hpp>

namespace memleax {

std::vector<OptionDescription> describe_options(const CLI::App& app, const OptionChoices& choices) {
    std::vector<OptionDescription> all;
    for (const CLI::Option* option : app.get_options()) {
        if (!option->nonpositional()) {
            continue;
        }
        OptionDescription each;
        for (const std::string& name : option->get_snames()) {
            each.names.push_back("-" + name);
        }
        for (const std::string& name : option->get_lnames()) {
            each.names.push_back("--" + name);
        }
        if (option->get_type_size_max() > 0) { // a flag's is 0
            each.value = option->get_type_name();
        }
        each.help = option->get_description();
        each.repeatable = !each.value.empty() &&
                          option->get_multi_option_policy() != CLI::MultiOptionPolicy::TakeLast;
        if (const auto it = choices.find(each.names.back()); it != choices.end()) {
            each.choices = it->second;
        }
        all.push_back(std::move(each));
    }
    return all;
}

} // namespace memleax

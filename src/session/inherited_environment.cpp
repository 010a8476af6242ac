// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/inherited_environment.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace memleax {

namespace {

constexpr std::array<std::string_view, 2> kPreloads{"LD_PRELOAD=", "LD_AUDIT="};
/// Before the names of those that are kept for the command.
constexpr std::string_view kAside = "MEMLEAX_ASIDE_";

/// Empty, it has no effect.
bool is_preload(std::string_view variable) {
    return std::any_of(kPreloads.begin(), kPreloads.end(), [variable](auto name) {
        return variable.starts_with(name) && variable.size() > name.size();
    });
}

bool is_aside(std::string_view variable) {
    return variable.starts_with(kAside) && is_preload(variable.substr(kAside.size()));
}

std::vector<std::string> variables() {
    std::vector<std::string> all;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        all.emplace_back(*variable);
    }
    return all;
}

} // namespace

void execute_without_preloads(char** argv) {
    std::vector<std::string> all = variables();
    // Without an interpreter nothing was preloaded; or this is the interpreter's process, started
    // by hand with our file as its argument, and our arguments are not its own.
    if (std::none_of(all.begin(), all.end(), is_preload) || getauxval(AT_BASE) == 0) {
        return;
    }
    std::vector<char*> pointers;
    for (std::string& variable : all) {
        if (is_preload(variable)) {
            variable.insert(0, kAside);
        }
        pointers.push_back(variable.data());
    }
    pointers.push_back(nullptr);
    execve("/proc/self/exe", argv, pointers.data());
}

std::vector<std::string> take_inherited_environment() {
    std::vector<std::string> all = variables();
    bool has_executed_itself = false;
    for (std::string& variable : all) {
        if (is_aside(variable)) {
            has_executed_itself = true;
            unsetenv(variable.substr(0, variable.find('=')).c_str());
            variable.erase(0, kAside.size());
        }
    }
    if (has_executed_itself) {
        prctl(PR_SET_NAME, program_invocation_short_name); // instead of "exe"
    }
    return all;
}

} // namespace memleax

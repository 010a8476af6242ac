// SPDX-License-Identifier: GPL-3.0-or-later
#include "program_support.hpp"

#include <cstdlib>

namespace memleax::testing {

bool has_program(const std::string& program) {
    return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

std::string missing_tool(const std::string& script) {
    for (const char* tool :
         {"cc", "clang-14", "llvm-dwp-14", "dwp", "dwz", "objcopy", "strip", "xz", "python3"}) {
        if (script.find(tool) != std::string::npos && !has_program(tool)) {
            return tool;
        }
    }
    return "";
}

} // namespace memleax::testing

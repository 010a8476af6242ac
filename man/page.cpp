// SPDX-License-Identifier: GPL-3.0-or-later
// Puts the prompt's commands into the man page's source: stdin to stdout, scdoc(5). So what the
// page says is what `help` says.
#include <iostream>
#include <string>

#include <fmt/format.h>

#include "../src/cli/command.hpp"

namespace {

/// Names and placeholders have characters that mean something to scdoc.
std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '*' || c == '_' || c == '\\' || c == '[' || c == '#' || c == '~') {
            result += '\\';
        }
        result += c == '\n' ? ' ' : c;
    }
    return result;
}

void print_commands() {
    for (const memleax::Command& command : memleax::commands()) {
        std::string heading = fmt::format("*{}*", command.name);
        if (!command.arguments.empty()) {
            heading += " " + escaped(command.arguments);
        }
        std::string text(command.summary);
        text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
        text += text.back() == '?' ? "" : ".";
        if (!command.help.empty()) {
            text += " " + std::string(command.help);
        }
        std::cout << heading << "\n\t" << escaped(text) << "\n\n";
    }
}

} // namespace

int main() {
    for (std::string line; std::getline(std::cin, line);) {
        if (line == "@COMMANDS@") {
            print_commands();
        } else {
            std::cout << line << '\n';
        }
    }
    std::cout.flush();
    return std::cout ? 0 : 1;
}

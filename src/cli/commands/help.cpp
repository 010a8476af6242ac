// SPDX-License-Identifier: GPL-3.0-or-later
#include <fmt/format.h>

#include "../command.hpp"

namespace memleax {

void run_help(CommandContext& context, Arguments& arguments) {
    Console& console = context.console;
    if (arguments.empty()) {
        std::size_t width = 0;
        for (const Command& command : commands()) {
            width = std::max(width, usage_of(command).size());
        }
        for (const Command& command : commands()) {
            console.add(fmt::format(
                "{}  {}\n",
                console.styled(Style::heading, fmt::format("{:<{}}", usage_of(command), width)),
                command.summary));
        }
        console.add("Beginnings of names will do. An empty line repeats the last command.\n");
        return;
    }
    const Command& command = find_command(arguments.word("the command"));
    arguments.done();
    console.add(fmt::format("{}\n    {}\n", console.styled(Style::heading, usage_of(command)),
                            command.summary));
    if (!command.help.empty()) {
        std::string help(command.help);
        for (auto at = help.find('\n'); at != std::string::npos; at = help.find('\n', at + 1)) {
            help.insert(at + 1, "    ");
        }
        console.add(fmt::format("    {}\n", help));
    }
}

} // namespace memleax

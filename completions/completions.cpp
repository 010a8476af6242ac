// SPDX-License-Identifier: GPL-3.0-or-later
// Prints the completions for a shell: bash, zsh or fish. What they offer comes from the program's
// own tables of options and of the prompt's commands.
//
//     completions SHELL ALLOCATOR-FILE...
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../src/cli/command.hpp"
#include "../src/cli/option_description.hpp"

namespace {

using memleax::OptionDescription;
using Words = std::vector<std::string>;

/// In one line, without the list of values that follows a colon.
std::string short_help(const OptionDescription& option) {
    std::string line = option.help.substr(0, option.help.find(":\n"));
    for (char& c : line) {
        c = c == '\n' ? ' ' : c;
    }
    return line;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
    for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
        text.replace(at, from.size(), to);
    }
    return text;
}

bool takes_file(const OptionDescription& option) {
    return option.value == "FILE";
}
bool takes_folder(const OptionDescription& option) {
    return option.value == "DIR";
}

bool takes_pid(const OptionDescription& option) {
    return option.value == "PID";
}
bool takes_process_name(const OptionDescription& option) {
    return option.names.back() == "--name";
}

/// The words to choose from, beside files.
Words words_for(const OptionDescription& option, const Words& allocator_files) {
    if (option.names.back() == "--allocators") {
        return allocator_files;
    }
    if (option.names.back() == "-x") {
        Words names;
        for (const memleax::Command& command : memleax::commands()) {
            names.emplace_back(command.name);
        }
        return names;
    }
    return option.choices;
}

void print_bash(const std::vector<OptionDescription>& options, const Words& allocator_files) {
    std::cout << R"(# bash completion for memleax(1), made from its own table of options
_memleax_pids()
{
    mapfile -t COMPREPLY < <(cd /proc && compgen -G "$cur[0-9]*"; compgen -G "/proc/$cur" >/dev/null && echo "$cur")
}
_memleax()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; ++i)); do
        [[ ${COMP_WORDS[i]} == -- ]] || continue
        if declare -F _command_offset >/dev/null; then
            _command_offset $((i + 1))
        elif ((i + 1 == COMP_CWORD)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
        return
    done
    # --format=json comes as three words
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]] && ((COMP_CWORD > 2)); then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case $prev in
)";
    Words all;
    for (const OptionDescription& option : options) {
        all.insert(all.end(), option.names.begin(), option.names.end());
        if (option.value.empty()) {
            continue;
        }
        std::cout << fmt::format("    {})\n", fmt::join(option.names, " | "));
        if (takes_pid(option)) {
            std::cout << "        _memleax_pids\n";
        } else if (takes_process_name(option)) {
            std::cout << "        mapfile -t COMPREPLY < <(compgen -W \"$(cat /proc/[0-9]*/comm "
                         "2>/dev/null)\" -- \"$cur\" | sort -u)\n";
        }
        const Words words = words_for(option, allocator_files);
        const char* kinds = takes_file(option) ? "-f " : takes_folder(option) ? "-d " : "";
        if (*kinds != '\0' || !words.empty()) {
            const std::string list =
                words.empty() ? "" : fmt::format("-W '{}' ", fmt::join(words, " "));
            std::cout << fmt::format("        mapfile -t COMPREPLY < <(compgen {}{}-- \"$cur\")\n",
                                     kinds, list);
        }
        std::cout << "        return\n        ;;\n";
    }
    std::cout << fmt::format(R"(    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '{} --' -- "$cur")
    else
        _memleax_pids
    fi
}}
complete -F _memleax memleax
)",
                             fmt::join(all, " "));
}

/// Within single quotes, and within the brackets of _arguments.
std::string for_zsh(std::string text) {
    for (const char* special : {"\\", "[", "]", ":"}) {
        text = replaced(text, special, std::string("\\") + special);
    }
    return replaced(text, "'", "'\\''");
}

void print_zsh(const std::vector<OptionDescription>& options, const Words& allocator_files) {
    std::cout << R"(#compdef memleax
# zsh completion for memleax(1), made from its own table of options
_memleax() {
    local end=${words[(i)--]}
    if ((end < CURRENT)); then
        shift $end words
        ((CURRENT -= end))
        _normal
        return
    fi
    _arguments -s : \
)";
    for (const OptionDescription& option : options) {
        const Words words = words_for(option, allocator_files);
        std::string value;
        if (!option.value.empty()) {
            std::string action = " "; // something that nobody can guess
            if (takes_file(option) && !words.empty()) {
                action = fmt::format("{{_alternative \"words:name:({})\" \"files:file:_files\"}}",
                                     fmt::join(words, " "));
            } else if (takes_file(option)) {
                action = "_files";
            } else if (takes_folder(option)) {
                action = "_files -/";
            } else if (takes_pid(option)) {
                action = "_pids";
            } else if (takes_process_name(option)) {
                action = "_process_names";
            } else if (!words.empty()) {
                action = fmt::format("({})", fmt::join(words, " "));
            }
            value = fmt::format(":{}:{}", for_zsh(option.value), action);
        }
        const std::string rest = fmt::format("'[{}]{}'", for_zsh(short_help(option)), value);
        const std::string before =
            option.repeatable ? "'*'" : fmt::format("'({})'", fmt::join(option.names, " "));
        const std::string names = option.names.size() == 1
                                      ? option.names[0]
                                      : fmt::format("{{{}}}", fmt::join(option.names, ","));
        std::cout << fmt::format("        {}{}{} \\\n", before, names, rest);
    }
    std::cout << R"(        '*:PID:_pids'
}
_memleax "$@"
)";
}

std::string for_fish(const std::string& text) {
    return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

void print_fish(const std::vector<OptionDescription>& options, const Words& allocator_files) {
    std::cout << R"(# fish completion for memleax(1), made from its own table of options
function __memleax_has_command
    contains -- -- (commandline --current-process --cut-at-cursor --tokenize)
end
complete -c memleax -f
complete -c memleax -n 'not __memleax_has_command' -a '(__fish_complete_pids)'
complete -c memleax -n __memleax_has_command -a '(__fish_complete_subcommand --fcs-skip=2)'
)";
    for (const OptionDescription& option : options) {
        std::string line = "complete -c memleax -n 'not __memleax_has_command'";
        for (const std::string& name : option.names) {
            line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
        }
        if (!option.value.empty()) {
            line += takes_file(option) ? " -r -F" : " -x";
            const Words words = words_for(option, allocator_files);
            if (!words.empty()) {
                line += fmt::format(" -a '{}'", fmt::join(words, " "));
            } else if (takes_folder(option)) {
                line += " -a '(__fish_complete_directories)'";
            } else if (takes_pid(option)) {
                line += " -a '(__fish_complete_pids)'";
            } else if (takes_process_name(option)) {
                line += " -a '(__fish_complete_proc)'";
            }
        }
        std::cout << line << " -d " << for_fish(short_help(option)) << '\n';
    }
}

} // namespace

int main(int argc, char** argv) {
    const Words words(argv + 1, argv + argc);
    if (words.empty()) {
        std::cerr << "completions: no shell is named\n";
        return 2;
    }
    const Words allocator_files(words.begin() + 1, words.end());
    const auto options = memleax::describe_options();
    if (words[0] == "bash") {
        print_bash(options, allocator_files);
    } else if (words[0] == "zsh") {
        print_zsh(options, allocator_files);
    } else if (words[0] == "fish") {
        print_fish(options, allocator_files);
    } else {
        std::cerr << "completions: '" << words[0] << "' is none of bash, zsh, fish\n";
        return 2;
    }
    std::cout.flush();
    return std::cout ? 0 : 1;
}

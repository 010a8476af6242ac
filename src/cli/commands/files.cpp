// SPDX-License-Identifier: GPL-3.0-or-later
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

#include "../command.hpp"
#include "../human_text.hpp"
#include "memleax/report/report_writer.hpp"
#include "memleax/session/report_output.hpp"

namespace memleax {

void run_save(CommandContext& context, Arguments& arguments) {
    const std::string name = arguments.word("the format");
    const ReportFormat* format = find_report_format(name);
    if (format == nullptr || format->write == nullptr) {
        std::string all;
        for (const ReportFormat& each : report_formats()) {
            if (each.write != nullptr) {
                all += fmt::format("{}{}", all.empty() ? "" : ", ", each.name);
            }
        }
        throw arguments.wrong(fmt::format("'{}' is none of {}", name, all));
    }
    const std::string path = arguments.word("the file");
    arguments.done();
    if (path.empty()) {
        throw arguments.wrong("the file's name is empty");
    }
    auto output = ReportOutput::open(path, ReportOutput::Reader::is_there);
    if (!output) {
        throw CommandError(output.error().message());
    }
    const Report report = context.session.make_report();
    format->write(report, *output);
    output->finish();
    if (output->error() != 0) {
        throw CommandError(Error(fmt::format("cannot write {}", path), output->error()).message());
    }
    context.console.add(
        fmt::format("{} call stacks written to {}.\n", report.callstacks.size(), path));
}

void run_source(CommandContext& context, Arguments& arguments) {
    const std::string path = arguments.word("the file");
    arguments.done();
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
        lines.push_back(line);
    }
    if (!file.eof()) {
        throw CommandError(Error(fmt::format("cannot read {}", path), errno).message());
    }
    context.host.run_lines(std::move(lines), path);
}

void run_shell(CommandContext& context, Arguments& arguments) {
    const char* shell = std::getenv("SHELL");
    if (arguments.rest().empty()) {
        context.host.run_program({shell != nullptr && *shell != '\0' ? shell : "/bin/sh"}, -1);
    } else {
        context.host.run_program({"/bin/sh", "-c", arguments.rest()}, -1);
    }
}

} // namespace memleax

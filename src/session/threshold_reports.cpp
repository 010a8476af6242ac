// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/threshold_reports.hpp"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "memleax/session/report_output.hpp"

namespace memleax {

namespace {

namespace fs = std::filesystem;

struct FileName {
    std::string stem; ///< with its folders
    std::string extension;
};

/// "heap.pb.gz" is "heap" and ".pb.gz" for pprof.
FileName split_name(const std::string& path, const ReportFormat& format) {
    std::size_t stem = path.size();
    if (path.ends_with(format.extension)) {
        stem -= format.extension.size();
    } else {
        stem -= fs::path(path).extension().native().size();
    }
    return {path.substr(0, stem), path.substr(stem)};
}

std::string with_pid(const std::string& pattern, Tid pid) {
    std::string name;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
        if (next == 'p') {
            name += fmt::format("{}", pid.value());
        } else if (next == '%' || next == '\0') {
            name += pattern[i];
        } else {
            name.append({'%', next});
        }
        i += next != '\0' ? 1 : 0;
    }
    return name;
}

/// A file of that name, or none, but no device, pipe or terminal.
bool may_be_file(const std::string& path) {
    std::error_code ignored;
    const fs::file_status status = fs::status(path, ignored);
    return !fs::exists(status) || fs::is_regular_file(status);
}

bool has_file(const SessionOptions& options) {
    return !options.output.empty() && may_be_file(options.output);
}

Result<void> cannot_write(const std::string& where, int error) {
    return Error(fmt::format("cannot write the reports of --at-memory and --at-pressure to {}",
                             where),
                 error)
        .with_advice("name another place with --at-output");
}

Result<void> check_folder(const std::string& path) {
    const std::string folder = fs::path(path).parent_path().native();
    if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
        return cannot_write(folder.empty() ? "this folder" : folder, errno);
    }
    return {};
}

/// A file that is there is replaced; to a pipe or device we may write.
Result<void> check_name(const std::string& path) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
        return cannot_write(path, EISDIR);
    }
    if (!may_be_file(path) && access(path.c_str(), W_OK) != 0) {
        return cannot_write(path, errno);
    }
    return {};
}

} // namespace

Result<void> ThresholdReports::check(const SessionOptions& options) {
    if (options.at_memory.empty() && !options.at_pressure) {
        return {};
    }
    if (options.at_output.empty()) {
        return check_folder(has_file(options) ? options.output : "");
    }
    std::vector<int> pids = options.pids;
    if (pids.empty() || options.ns_pid) { // those that are watched are not known yet
        pids = {0};
    }
    for (const int pid : pids) {
        const std::string name = with_pid(options.at_output, Tid(pid));
        if (auto usable = check_folder(name); !usable) {
            return usable;
        }
        if (auto usable = check_name(name); !usable) {
            return usable;
        }
    }
    return {};
}

std::string ThresholdReports::next_path(const ThresholdPassed& passed) {
    const char* kind = passed.kind == ThresholdPassed::Kind::memory ? "at-memory" : "at-pressure";
    FileName name;
    if (!options_.at_output.empty()) {
        name = split_name(with_pid(options_.at_output, passed.pid), *options_.format);
    } else if (has_file(options_)) {
        name = split_name(options_.output, *options_.format);
        name.stem += several_ ? fmt::format("-{}", passed.pid.value()) : "";
        name.stem += fmt::format("-{}", kind);
    } else {
        name = {fmt::format("memleax-{}-{}", passed.pid.value(), kind),
                std::string(options_.format->extension)};
    }
    const unsigned number = ++used_[name.stem + name.extension];
    return number == 1 ? name.stem + name.extension
                       : fmt::format("{}-{}{}", name.stem, number, name.extension);
}

Result<std::string> ThresholdReports::save(const Report& report, const ThresholdPassed& passed) {
    const std::string path = next_path(passed);
    const bool in_place = !may_be_file(path); // a pipe, say, which the user has made for it
    const std::string part = in_place ? path : path + ".part";
    if (!in_place) {
        unlink(part.c_str()); // of a run that was killed
    }
    auto output = in_place ? ReportOutput::open(path, ReportOutput::Reader::is_there)
                           : ReportOutput::create(part);
    if (!output) {
        return std::move(output).error();
    }
    options_.format->write(report, *output);
    output->finish();
    int error = output->error();
    if (error == 0 && !in_place && std::rename(part.c_str(), path.c_str()) != 0) {
        error = errno;
    }
    if (error != 0) {
        if (!in_place) {
            unlink(part.c_str());
        }
        return Error(fmt::format("cannot write {}", path), error);
    }
    return path;
}

} // namespace memleax

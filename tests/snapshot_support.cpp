// SPDX-License-Identifier: GPL-3.0-or-later
#include "snapshot_support.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "child_process_support.hpp"
#include "leaks_support.hpp"
#include "memleax/proc/living_thread.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax::testing {

namespace {

std::string proc_path(pid_t pid, const std::string& rest) {
    return fmt::format("/proc/{}/{}", living_thread(Tid(pid)).value(), rest);
}

/// As far as they can be read: a mapping may go beyond its file's end, as musl's linker leaves
/// them.
std::string read_bytes(int mem, std::uint64_t begin, std::uint64_t end) {
    std::string bytes(end - begin, '\0');
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t n = ::pread(mem, bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(begin + done));
        if (n < 0 && errno == EIO && done != 0) {
            bytes.resize(done);
            break;
        }
        if (n <= 0) {
            throw std::runtime_error(
                fmt::format("cannot read {:#x}: {}", begin + done, std::strerror(errno)));
        }
        done += static_cast<std::size_t>(n);
    }
    return bytes;
}

std::map<std::uint64_t, TargetSnapshot::Mapping> read_mappings(pid_t pid) {
    const ScopedFd mem(::open(proc_path(pid, "mem").c_str(), O_RDONLY | O_CLOEXEC));
    std::ifstream maps(proc_path(pid, "maps"));
    if (mem.get() < 0 || !maps) {
        throw std::runtime_error(fmt::format("cannot read the memory of process {}", pid));
    }
    std::map<std::uint64_t, TargetSnapshot::Mapping> result;
    TargetSnapshot::Mapping mapping;
    while (std::getline(maps, mapping.line)) {
        std::istringstream words(mapping.line);
        std::string range;
        std::string permissions;
        std::string offset;
        std::string device;
        std::string inode;
        words >> range >> permissions >> offset >> device >> inode >> std::ws;
        mapping.file.clear();
        std::getline(words, mapping.file);
        const auto dash = range.find('-');
        const std::uint64_t begin = std::stoull(range.substr(0, dash), nullptr, 16);
        const std::uint64_t end = std::stoull(range.substr(dash + 1), nullptr, 16);
        mapping.executable = permissions.find('x') != std::string::npos;
        // vsyscall is the kernel's, the same for all, and cannot be read through mem.
        const bool has_bytes = mapping.executable && mapping.file != "[vsyscall]";
        mapping.bytes = has_bytes ? read_bytes(mem.get(), begin, end) : "";
        result.emplace(begin, mapping);
    }
    return result;
}

TargetSnapshot::Thread read_thread(std::istream& status) {
    TargetSnapshot::Thread thread;
    std::string line;
    while (std::getline(status, line)) {
        if (line.starts_with("SigBlk:") || line.starts_with("SigIgn:") ||
            line.starts_with("SigCgt:")) {
            thread.signals += line + " ";
        } else if (line.starts_with("SigPnd:") || line.starts_with("ShdPnd:")) {
            thread.pending += line + " ";
        } else if (line.starts_with("TracerPid:")) {
            thread.tracer = std::stoi(line.substr(std::strlen("TracerPid:")));
        } else if (line.starts_with("State:")) {
            const auto state = line.find_first_not_of(" \t", std::strlen("State:"));
            thread.stopped = state != std::string::npos && (line[state] | 0x20) == 't';
        }
    }
    return thread;
}

std::string first_difference(const std::string& before, const std::string& after) {
    std::size_t i = 0;
    while (i < before.size() && i < after.size() && before[i] == after[i]) {
        ++i;
    }
    if (i == before.size() || i == after.size()) {
        return "another size";
    }
    return fmt::format("at +{:#x}: {:02x} became {:02x}", i, before[i] & 0xff, after[i] & 0xff);
}

/// Mappings that malloc, threads and dlopen make or unmake; never executable memory without a file.
bool is_own_doing(const TargetSnapshot::Mapping& mapping) {
    return mapping.is_of_file() || !mapping.executable;
}

/// Whenever no thread has such a line in its status.
TargetSnapshot take_snapshot_with_none(pid_t pid, const std::string& line) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    for (;;) {
        TargetSnapshot snapshot = take_snapshot(pid);
        const bool any = std::ranges::any_of(snapshot.threads, [&line](const auto& entry) {
            return entry.second.signals.find(line) != std::string::npos;
        });
        if (!any || std::chrono::steady_clock::now() > deadline) {
            return snapshot;
        }
    }
}

} // namespace

TargetSnapshot take_snapshot(pid_t pid) {
    TargetSnapshot result;
    result.mappings = read_mappings(pid);
    for (const auto& entry : std::filesystem::directory_iterator(proc_path(pid, "task"))) {
        std::ifstream status(entry.path() / "status");
        if (status) { // else it ended in between
            result.threads.emplace(std::stoi(entry.path().filename()), read_thread(status));
        }
    }
    return result;
}

TargetSnapshot take_snapshot(pid_t pid, const std::set<std::string>& changing_masks) {
    TargetSnapshot now = take_snapshot(pid);
    for (auto& [tid, thread] : now.threads) {
        const auto info = try_read_process_info(Tid(tid));
        if (info && changing_masks.contains(info->comm)) {
            thread.signals.clear();
        }
    }
    return now;
}

TargetSnapshot take_snapshot_between_births(pid_t pid) {
    return take_snapshot_with_none(pid, "SigBlk:\tffff");
}

TargetSnapshot take_snapshot_unblocked(pid_t pid, int signal) {
    return take_snapshot_with_none(
        pid, fmt::format("SigBlk:\t{:016x}", std::uint64_t{1} << (signal - 1)));
}

std::vector<std::string> unlike_their_files(const TargetSnapshot& snapshot) {
    std::vector<std::string> result;
    for (const auto& [address, mapping] : snapshot.mappings) {
        if (!mapping.executable || !mapping.is_of_file()) {
            continue;
        }
        std::istringstream words(mapping.line);
        std::string range, permissions, offset;
        words >> range >> permissions >> offset;
        std::ifstream file(mapping.file, std::ios::binary);
        if (!file) {
            continue;
        }
        file.seekg(static_cast<std::streamoff>(std::stoull(offset, nullptr, 16)));
        std::string bytes(mapping.bytes.size(), '\0'); // what is behind the file's end
        file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        if (bytes != mapping.bytes) {
            result.push_back(
                fmt::format("{}: {}", mapping.line, first_difference(bytes, mapping.bytes)));
        }
    }
    return result;
}

std::set<std::string> code_of(const TargetSnapshot& snapshot) {
    std::set<std::string> code;
    for (const auto& [address, mapping] : snapshot.mappings) {
        if (mapping.executable) {
            code.insert(mapping.line + mapping.bytes);
        }
    }
    return code;
}

std::vector<std::string> differences(const TargetSnapshot& before, const TargetSnapshot& after,
                                     Meanwhile meanwhile) {
    record_compared("leaving");
    const bool idle = meanwhile == Meanwhile::idle;
    std::vector<std::string> result;
    for (const auto& [address, mapping] : before.mappings) {
        const auto now = after.mappings.find(address);
        if (now == after.mappings.end()) {
            if (idle || !is_own_doing(mapping)) {
                result.push_back("gone: " + mapping.line);
            }
            continue;
        }
        const auto& other = now->second;
        const bool same_kind = mapping.line == other.line;
        if (!same_kind && (idle || mapping.executable || other.executable)) {
            result.push_back(fmt::format("changed: {}\n     now: {}", mapping.line, other.line));
        } else if (same_kind && mapping.bytes != other.bytes) {
            result.push_back(fmt::format("code of {} {}", mapping.line,
                                         first_difference(mapping.bytes, other.bytes)));
        }
    }
    for (const auto& [address, mapping] : after.mappings) {
        if (!before.mappings.contains(address) && (idle || !is_own_doing(mapping))) {
            result.push_back("new: " + mapping.line);
        }
    }
    for (const auto& [tid, thread] : after.threads) {
        if (thread.tracer != 0 || thread.stopped) {
            result.push_back(fmt::format("thread {}: tracer {}, stopped: {}", tid, thread.tracer,
                                         thread.stopped));
        }
        const auto then = before.threads.find(tid);
        if (then != before.threads.end() && then->second.signals != thread.signals) {
            result.push_back(
                fmt::format("thread {}: {} became {}", tid, then->second.signals, thread.signals));
        }
        if (then != before.threads.end() && idle && then->second.pending != thread.pending) {
            result.push_back(
                fmt::format("thread {}: {} became {}", tid, then->second.pending, thread.pending));
        }
        if (then == before.threads.end() && idle) {
            result.push_back(fmt::format("thread {} is new", tid));
        }
    }
    for (const auto& [tid, thread] : before.threads) {
        if (idle && !after.threads.contains(tid)) {
            result.push_back(fmt::format("thread {} has gone", tid));
        }
    }
    return result;
}

} // namespace memleax::testing

// SPDX-License-Identifier: GPL-3.0-or-later
#include "shared_parts.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include <dirent.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "memleax/base/regular_file.hpp"
#include "memleax/proc/living_thread.hpp"

namespace memleax {

namespace {

/// By its name. Of a tmpfs elsewhere one whose file cannot be opened is not known to be one.
bool may_be_in_memory(const Mapping& mapping) {
    constexpr std::array<std::string_view, 4> kNames{"/dev/zero", "/memfd:", "/SYSV", "/dev/shm/"};
    return std::any_of(kNames.begin(), kNames.end(), [&mapping](std::string_view name) {
        return mapping.path.starts_with(name);
    });
}

bool is_file_of(const Mapping& mapping, const struct stat& status) {
    return status.st_ino == mapping.inode && status.st_dev == mapping.device;
}

/// The mapping's file, if it is what is at this path, and of tmpfs; -1: it is not, or we may not
/// open it.
int open_if_it_is(const std::string& path, const Mapping& mapping) {
    struct statfs system {};
    if (statfs(path.c_str(), &system) != 0 || system.f_type != TMPFS_MAGIC) {
        return -1;
    }
    const auto file = open_regular_file(path);
    if (!file) {
        return -1;
    }
    struct stat status {};
    if (fstat(*file, &status) == 0 && is_file_of(mapping, status)) {
        return *file;
    }
    close(*file);
    return -1;
}

/// As one of the process's descriptors, which it may have, too.
int open_as_descriptor(const std::string& process, const Mapping& mapping) {
    const std::string folder = process + "/fd";
    DIR* const list = opendir(folder.c_str());
    int file = -1;
    while (const dirent* entry = list != nullptr && file < 0 ? readdir(list) : nullptr) {
        const std::string path = fmt::format("{}/{}", folder, entry->d_name);
        struct stat status {};
        if (entry->d_name[0] != '.' && stat(path.c_str(), &status) == 0 &&
            is_file_of(mapping, status)) {
            file = open_if_it_is(path, mapping);
        }
    }
    if (list != nullptr) {
        closedir(list);
    }
    return file;
}

/// The first is for who may do anything (CAP_SYS_ADMIN, or CAP_CHECKPOINT_RESTORE); then by the
/// name in the process's own file system. A process may have many descriptors.
int open_file_of(const std::string& process, const Mapping& mapping) {
    int file = open_if_it_is(
        fmt::format("{}/map_files/{:x}-{:x}", process, mapping.range.begin, mapping.range.end),
        mapping);
    if (file < 0 && !mapping.deleted) {
        file = open_if_it_is(process + "/root" + mapping.path, mapping);
    }
    return file < 0 && may_be_in_memory(mapping) ? open_as_descriptor(process, mapping) : file;
}

/// What is left of `range` without `parts`, which ascend.
std::vector<AddrRange> without(AddrRange range, const std::vector<AddrRange>& parts) {
    std::vector<AddrRange> rest;
    for (const AddrRange& part : parts) {
        if (range.begin < part.begin) {
            rest.push_back({range.begin, part.begin});
        }
        range.begin = std::max(range.begin, part.end);
    }
    if (range.begin < range.end) {
        rest.push_back(range);
    }
    return rest;
}

} // namespace

SharedParts::SharedParts(Tid pid, std::span<const Mapping> mappings, const PresentPages& pages) {
    const std::string process = fmt::format("/proc/{}", living_thread(pid).value());
    for (const Mapping& mapping : mappings) {
        if (!mapping.shared || mapping.inode == 0) {
            continue;
        }
        const std::vector<AddrRange> absent =
            without(mapping.range, pages.in(mapping.range, PresentPages::Kind::any));
        if (absent.empty()) {
            continue;
        }
        const int file = open_file_of(process, mapping);
        if (file < 0) {
            is_incomplete_ = is_incomplete_ || may_be_in_memory(mapping);
            continue;
        }
        files_.push_back(file);
        for (const AddrRange& range : absent) {
            add(mapping, range, file);
        }
    }
}

SharedParts::~SharedParts() {
    for (const int file : files_) {
        close(file);
    }
}

// Holes are zero.
void SharedParts::add(const Mapping& mapping, AddrRange absent, int file) {
    const std::uint64_t to_file = mapping.offset.value() - mapping.range.begin; // may wrap around
    const auto seek = [&](std::uint64_t at, int whence) -> std::optional<std::uint64_t> {
        const off_t found = lseek(file, static_cast<off_t>(at + to_file), whence);
        return found < 0 ? std::nullopt
                         : std::optional(static_cast<std::uint64_t>(found) - to_file);
    };
    while (absent.begin < absent.end) {
        const auto begin = seek(absent.begin, SEEK_DATA);
        const auto end = begin && *begin < absent.end ? seek(*begin, SEEK_HOLE) : std::nullopt;
        if (!end) {
            return; // nothing more, or the end of the file
        }
        static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
        const AddrRange part{*begin & ~(page - 1),
                             std::min((*end + page - 1) & ~(page - 1), absent.end)};
        if (part.size() > kMostBytes - bytes_) {
            is_incomplete_ = true;
            return;
        }
        bytes_ += part.size();
        parts_.push_back({part, file, part.begin + to_file});
        absent.begin = part.end;
    }
}

std::vector<AddrRange> SharedParts::ranges() const {
    std::vector<AddrRange> ranges;
    ranges.reserve(parts_.size());
    for (const Part& part : parts_) {
        ranges.push_back(part.range);
    }
    return ranges;
}

const SharedParts::Part* SharedParts::find(std::uint64_t at) const {
    const auto part = std::partition_point(parts_.begin(), parts_.end(),
                                           [at](const Part& each) { return each.range.end <= at; });
    return part != parts_.end() && part->range.contains(at) ? &*part : nullptr;
}

// What the last page has behind the file's end is zero, as in memory.
std::size_t SharedParts::try_read(RemoteAddr from, std::span<std::byte> out) const {
    const Part* const part = find(from.value());
    if (part == nullptr) {
        return 0;
    }
    const std::uint64_t skipped = from.value() - part->range.begin;
    out = out.first(std::min<std::uint64_t>(out.size(), part->range.end - from.value()));
    std::size_t done = 0;
    while (done < out.size()) {
        const ssize_t got = pread(part->file, &out[done], out.size() - done,
                                  static_cast<off_t>(part->offset + skipped + done));
        if (got <= 0) {
            break;
        }
        done += static_cast<std::size_t>(got);
    }
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(done), out.end(), std::byte(0));
    return out.size();
}

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/perf_map.hpp"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/base/regular_file.hpp"
#include "memleax/base/spare_descriptors.hpp"

namespace memleax {

namespace {

// The file is the target's to write. One of a large node server has some ten MiB.
constexpr std::uint64_t kMaxFile = std::uint64_t{256} << 20;
constexpr std::size_t kMaxNames = std::size_t{128} << 20; // of all functions at a time
constexpr std::size_t kMaxName = 1024;
constexpr std::size_t kPiece = std::size_t{1} << 20;

/// A number in hex, with or without "0x", and what follows it.
std::optional<std::uint64_t> take_number(std::string_view* line) {
    line->remove_prefix(std::min(line->find_first_not_of(' '), line->size()));
    if (line->starts_with("0x") || line->starts_with("0X")) {
        line->remove_prefix(2);
    }
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(line->data(), line->data() + line->size(), value, 16);
    if (error != std::errc()) {
        return std::nullopt;
    }
    line->remove_prefix(static_cast<std::size_t>(end - line->data()));
    return value;
}

} // namespace

std::size_t PerfMap::add(std::string_view text) {
    std::size_t done = 0;
    for (std::size_t end = 0; (end = text.find('\n', done)) != std::string_view::npos;
         done = end + 1) {
        add_line(text.substr(done, end - done));
    }
    return done;
}

void PerfMap::add_line(std::string_view line) {
    const auto begin = take_number(&line);
    const auto size = begin ? take_number(&line) : std::nullopt;
    if (!size || *size == 0 || *begin + *size < *begin || !line.starts_with(' ')) {
        return;
    }
    line.remove_prefix(1);
    if (!line.empty() && size_ + line.size() <= kMaxNames) {
        insert({*begin, *begin + *size, std::string(line.substr(0, kMaxName))});
    }
}

void PerfMap::insert(Function function) {
    auto next = functions_.lower_bound(function.begin);
    if (next != functions_.begin() && std::prev(next)->second.end > function.begin) {
        --next;
    }
    while (next != functions_.end() && next->second.begin < function.end) {
        size_ -= next->second.name.size();
        next = functions_.erase(next);
    }
    size_ += function.name.size();
    const std::uint64_t begin = function.begin;
    functions_.insert_or_assign(begin, std::move(function));
}

const PerfMap::Function* PerfMap::find(std::uint64_t address) const {
    const auto after = functions_.upper_bound(address);
    if (after == functions_.begin() || std::prev(after)->second.end <= address) {
        return nullptr;
    }
    return &std::prev(after)->second;
}

PerfMapFile::PerfMapFile(std::shared_ptr<const TargetRoot> root, int own_number, unsigned owner)
    : root_(std::move(root)), path_(fmt::format("/tmp/perf-{}.map", own_number)), owner_(owner) {}

PerfMapFile::~PerfMapFile() {
    if (fd_ >= 0) {
        close(fd_);
    }
}

void PerfMapFile::open() {
    auto fd = root_ != nullptr ? root_->open_file(path_) : open_regular_file(path_);
    if (!fd) {
        return; // it may come yet
    }
    looked_ = true;
    struct stat status {};
    if (is_spare_descriptor(*fd) || fstat(*fd, &status) != 0) {
        close(*fd);
    } else if (status.st_uid != owner_ && status.st_uid != 0) {
        log_warning("{} belongs to user {}, not to the process's: it is not read", path_,
                    status.st_uid);
        close(*fd);
    } else {
        fd_ = *fd;
    }
}

void PerfMapFile::read_on() {
    if (!looked_) {
        open();
    }
    struct stat status {};
    if (fd_ < 0 || fstat(fd_, &status) != 0 ||
        static_cast<std::uint64_t>(status.st_size) <= position_) {
        return;
    }
    std::vector<char> buffer(kPiece);
    ssize_t got = 0;
    while (position_ < kMaxFile &&
           (got = pread(fd_, buffer.data(), buffer.size(), static_cast<off_t>(position_))) > 0) {
        const auto size = static_cast<std::size_t>(got);
        const std::size_t done = map_.add({buffer.data(), size});
        if (done == 0 && size < buffer.size()) {
            return; // the last line is not finished
        }
        position_ += done != 0 ? done : size; // no line is as long as that
    }
}

const PerfMap::Function* PerfMapFile::find(CodeAddr pc) {
    read_on();
    return map_.find(pc.value());
}

} // namespace memleax

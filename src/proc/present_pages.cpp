// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/present_pages.hpp"

#include <array>
#include <cstdint>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "memleax/proc/living_thread.hpp"

namespace memleax {

namespace {

constexpr std::uint64_t kPresent = 1ULL << 63;
constexpr std::uint64_t kSwapped = 1ULL << 62;
constexpr std::uint64_t kOfFile = 1ULL << 61; ///< or shared anonymous memory

} // namespace

PresentPages::PresentPages(Tid pid)
    : fd_(open(fmt::format("/proc/{}/pagemap", living_thread(pid).value()).c_str(),
               O_RDONLY | O_CLOEXEC)) {}

PresentPages::~PresentPages() {
    if (fd_ >= 0) {
        close(fd_);
    }
}

std::vector<AddrRange> PresentPages::in(AddrRange range, Kind kind) const {
    static const std::uint64_t page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    std::vector<AddrRange> result;
    std::array<std::uint64_t, 4096> entries{};
    for (std::uint64_t at = range.begin & ~(page - 1); at < range.end;) {
        const ssize_t got = pread(fd_, entries.data(), sizeof entries,
                                  static_cast<off_t>(at / page * sizeof entries[0]));
        if (got < static_cast<ssize_t>(sizeof entries[0])) {
            return {range};
        }
        const std::size_t count = static_cast<std::size_t>(got) / sizeof entries[0];
        for (std::size_t i = 0; i < count && at < range.end; ++i, at += page) {
            const bool is_here = (entries[i] & (kPresent | kSwapped)) != 0;
            if (!is_here || (kind == Kind::own && (entries[i] & kOfFile) != 0)) {
                continue;
            }
            if (!result.empty() && result.back().end == at) {
                result.back().end = at + page;
            } else {
                result.push_back({at, at + page});
            }
        }
    }
    return result;
}

} // namespace memleax

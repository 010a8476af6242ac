// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/present_pages.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "memleax/proc/living_thread.hpp"

namespace memleax {

namespace {

constexpr std::uint64_t kPresent = 1ULL << 63;
constexpr std::uint64_t kSwapped = 1ULL << 62;
constexpr std::uint64_t kOfFile = 1ULL << 61; ///< or shared anonymous memory
/// Nobody may read it (MADV_GUARD_INSTALL, since Linux 6.13; told since 6.15, beside kSwapped).
constexpr std::uint64_t kGuard = 1ULL << 58;

} // namespace

PresentPages::PresentPages(Tid pid)
    : fd_(open(fmt::format("/proc/{}/pagemap", living_thread(pid).value()).c_str(),
               O_RDONLY | O_CLOEXEC)) {}

PresentPages::~PresentPages() {
    if (fd_ >= 0) {
        close(fd_);
    }
}

PresentPages::Parts PresentPages::read(AddrRange range) const {
    static const std::uint64_t page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const auto add = [](std::vector<AddrRange>* parts, std::uint64_t at) {
        if (!parts->empty() && parts->back().end == at) {
            parts->back().end = at + page;
        } else {
            parts->push_back({at, at + page});
        }
    };
    Parts result{range, {}, {}};
    std::array<std::uint64_t, 4096> entries{};
    for (std::uint64_t at = range.begin & ~(page - 1); at < range.end;) {
        const ssize_t got = pread(fd_, entries.data(), sizeof entries,
                                  static_cast<off_t>(at / page * sizeof entries[0]));
        if (got < static_cast<ssize_t>(sizeof entries[0])) {
            return {range, {range}, {range}};
        }
        const std::size_t count = static_cast<std::size_t>(got) / sizeof entries[0];
        for (std::size_t i = 0; i < count && at < range.end; ++i, at += page) {
            if ((entries[i] & (kPresent | kSwapped)) == 0 || (entries[i] & kGuard) != 0) {
                continue;
            }
            add(&result.any, at);
            if ((entries[i] & kOfFile) == 0) {
                add(&result.own, at);
            }
        }
    }
    add_others(&result);
    return result;
}

void PresentPages::add_others(Parts* parts) const {
    const std::size_t own_count = parts->any.size();
    for (const AddrRange& other : others_) {
        if (other.overlaps(parts->mapping)) {
            parts->any.push_back(other.common_with(parts->mapping));
        }
    }
    std::inplace_merge(
        parts->any.begin(), parts->any.begin() + static_cast<std::ptrdiff_t>(own_count),
        parts->any.end(), [](const AddrRange& a, const AddrRange& b) { return a.begin < b.begin; });
}

void PresentPages::keep(std::span<const AddrRange> mappings) {
    std::vector<Parts> kept;
    kept.reserve(mappings.size());
    for (const AddrRange& mapping : mappings) {
        kept.push_back(read(mapping));
    }
    kept_ = std::move(kept);
}

void PresentPages::adopt(PresentPages& copys) {
    kept_.insert(kept_.end(), std::make_move_iterator(copys.kept_.begin()),
                 std::make_move_iterator(copys.kept_.end()));
    copys.kept_.clear();
    std::sort(kept_.begin(), kept_.end(),
              [](const Parts& a, const Parts& b) { return a.mapping.begin < b.mapping.begin; });
}

std::vector<AddrRange> PresentPages::in(AddrRange range, Kind kind) const {
    const auto after = std::upper_bound(
        kept_.begin(), kept_.end(), range.begin,
        [](std::uint64_t at, const Parts& parts) { return at < parts.mapping.end; });
    if (after == kept_.end() || range.begin < after->mapping.begin ||
        range.end > after->mapping.end) {
        Parts parts = read(range);
        return std::move(kind == Kind::own ? parts.own : parts.any);
    }
    static const std::uint64_t page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    range = {range.begin & ~(page - 1), (range.end + page - 1) & ~(page - 1)};
    std::vector<AddrRange> result;
    for (AddrRange part : kind == Kind::own ? after->own : after->any) {
        part = {std::max(part.begin, range.begin), std::min(part.end, range.end)};
        if (part.begin < part.end) {
            result.push_back(part);
        }
    }
    return result;
}

} // namespace memleax

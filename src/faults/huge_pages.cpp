// SPDX-License-Identifier: GPL-3.0-or-later
#include "huge_pages.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "memleax/proc/living_thread.hpp"

namespace memleax {

namespace {

// An entry of pagemap, and the flags of a page frame (linux/kernel-page-flags.h).
constexpr std::uint64_t kPresent = 1ULL << 63;
constexpr std::uint64_t kOfFile = 1ULL << 61;
constexpr std::uint64_t kFrame = (1ULL << 55) - 1; ///< 0 for who may not know
constexpr std::uint64_t kHead = 1ULL << 15;        ///< the first frame of several
constexpr std::uint64_t kTail = 1ULL << 16;        ///< one of the others
constexpr std::uint64_t kHuge = 1ULL << 22;        ///< transparent
constexpr std::uint64_t kZero = 1ULL << 24;        ///< only read so far; the kernel counts none

std::uint64_t page_size() {
    static const auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    return size;
}

/// "always [madvise] never" has "madvise".
std::string read_choice(const std::filesystem::path& path) {
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto begin = text.find('[');
    const auto end = text.find(']', begin);
    return end == std::string::npos ? "" : text.substr(begin + 1, end - begin - 1);
}

/// Entries from `first` on; fewer where there are no more, or where they may not be read.
std::vector<std::uint64_t> read_entries(int fd, std::uint64_t first, std::uint64_t count) {
    std::vector<std::uint64_t> entries(count);
    const ssize_t got = pread(fd, entries.data(), count * sizeof entries[0],
                              static_cast<off_t>(first * sizeof entries[0]));
    entries.resize(got > 0 ? static_cast<std::size_t>(got) / sizeof entries[0] : 0);
    return entries;
}

std::uint64_t read_entry(int fd, std::uint64_t number) {
    std::uint64_t entry = 0;
    const ssize_t got = pread(fd, &entry, sizeof entry, static_cast<off_t>(number * sizeof entry));
    return got == sizeof entry ? entry : 0;
}

} // namespace

std::optional<HugePageSizes> read_huge_page_sizes(const std::string& folder) {
    const auto may = [](const std::string& choice) { return !choice.empty() && choice != "never"; };
    const bool for_all = may(read_choice(folder + "/enabled"));
    std::vector<std::uint64_t> sizes;
    // Since Linux 6.8 each size has its own, which may be "inherit".
    std::error_code error;
    bool has_own = false;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        constexpr std::string_view kName = "hugepages-";
        const std::string name = entry.path().filename();
        const std::string choice = read_choice(entry.path() / "enabled");
        if (!name.starts_with(kName) || choice.empty()) {
            continue;
        }
        has_own = true;
        if (choice == "inherit" ? for_all : may(choice)) {
            sizes.push_back(std::stoull(name.substr(kName.size())) * 1024);
        }
    }
    if (!has_own && for_all) {
        std::ifstream file(folder + "/hpage_pmd_size");
        std::uint64_t size = 0;
        if (file >> size) {
            sizes.push_back(size);
        }
    }
    if (sizes.empty()) {
        return std::nullopt;
    }
    const auto [smallest, largest] = std::minmax_element(sizes.begin(), sizes.end());
    return HugePageSizes{*smallest, *largest};
}

HugePages::HugePages(Tid pid) : sizes_(read_huge_page_sizes()) {
    if (sizes_) {
        pages_ = open(fmt::format("/proc/{}/pagemap", living_thread(pid).value()).c_str(),
                      O_RDONLY | O_CLOEXEC);
        flags_ = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
    }
}

HugePages::~HugePages() {
    for (const int fd : {pages_, flags_}) {
        if (fd >= 0) {
            close(fd);
        }
    }
}

AddrRange HugePages::at(RemoteAddr address) {
    if (pages_ < 0 || flags_ < 0 || small_.contains(address)) {
        return {};
    }
    const std::uint64_t page = address.value() / page_size();
    const std::uint64_t entry = read_entry(pages_, page);
    const std::uint64_t frame = entry & kFrame;
    if ((entry & kPresent) == 0 || (entry & kOfFile) != 0 || frame == 0) {
        return {};
    }
    const std::uint64_t flags = read_entry(flags_, frame);
    if ((flags & kZero) != 0) {
        return {};
    }
    if ((flags & kHuge) == 0) {
        // A page beside it would need the table that this one is in.
        const RemoteAddr begin(address.value() & ~(sizes_->smallest - 1));
        small_ = AddrRange::at(begin, sizes_->smallest);
        return {};
    }
    // Its frames lie side by side, at a multiple of its size.
    const std::uint64_t most = sizes_->largest / page_size();
    const std::uint64_t window = frame & ~(most - 1);
    const auto all = read_entries(flags_, window, most);
    std::uint64_t first = frame - window;
    if (first >= all.size()) {
        return {};
    }
    while (first > 0 && (all[first] & kHead) == 0) {
        --first;
    }
    std::uint64_t end = first + 1;
    while (end < all.size() && (all[end] & kTail) != 0) {
        ++end;
    }
    const std::uint64_t before = frame - window - first;
    if ((all[first] & kHead) == 0 || frame - window >= end || before > page) {
        return {}; // it was split just then
    }
    return AddrRange::at(RemoteAddr((page - before) * page_size()), (end - first) * page_size());
}

} // namespace memleax

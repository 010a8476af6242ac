// SPDX-License-Identifier: GPL-3.0-or-later
#include "copy_hazards.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "descriptors.hpp"
#include "memleax/proc/copyable.hpp"
#include "memleax/proc/living_thread.hpp"
#include "memleax/proc/mapping_flags.hpp"
#include "memleax/proc/maps.hpp"
#include "named_numbers.hpp"
#include "proc_file.hpp"

namespace memleax {

namespace {

constexpr std::string_view kRing = "anon_inode:[io_uring]";

/// The kernel goes on with it while all threads stand still. If it reads into private memory
/// (O_DIRECT), and the process writes to the same page after a fork, what is read may come to the
/// copy's page alone: open(2), NOTES. Linux 6.5 pins the pages of block devices' reads, which
/// helps; not each file system does.
Error has_io(std::string_view kind) {
    return Error(fmt::format("a fork may take what {} reads for it", kind));
}

Error has_huge_pages() {
    return Error("it has private huge pages (MAP_HUGETLB), of which there may be none for a copy");
}

} // namespace

Result<void> check_mappings_copyable(std::span<const Mapping> mappings) {
    for (const Mapping& mapping : mappings) {
        const std::string_view path = mapping.path;
        if (path.starts_with("/[aio]")) {
            return has_io("the kernel's asynchronous I/O");
        }
        if (path.starts_with(kRing)) {
            return has_io("io_uring");
        }
        if (!mapping.shared && path.starts_with("/anon_hugepage")) {
            return has_huge_pages();
        }
    }
    return {};
}

bool is_told_of_forks(std::string_view fdinfo) {
    // "API:\taa:FEATURES:IOCTLS"
    constexpr std::uint64_t kEventFork = 1 << 1; // UFFD_FEATURE_EVENT_FORK
    constexpr int kHex = 16;
    std::size_t at = fdinfo.find("API:");
    for (int colons = 0; colons < 2 && at != std::string_view::npos; ++colons) {
        at = fdinfo.find(':', at) + 1;
    }
    if (at == std::string_view::npos || at == 0) {
        return true;
    }
    std::uint64_t features = 0;
    const char* const end = fdinfo.data() + fdinfo.size();
    const auto got = std::from_chars(fdinfo.data() + at, end, features, kHex);
    return got.ec != std::errc() || got.ptr == end || *got.ptr != ':' ||
           (features & kEventFork) != 0;
}

namespace {

constexpr std::string_view kFaults = "anon_inode:[userfaultfd]";

} // namespace

Result<void> check_descriptors_copyable(Tid pid) {
    return check_descriptors(pid, [](const std::string& name, const std::string& info) {
        if (name == kRing) {
            return Result<void>(has_io("io_uring"));
        }
        const bool waits =
            name == kFaults && is_told_of_forks(try_read_proc_file(info).value_or(""));
        return waits ? Result<void>(Error("its userfaultfd has forks wait until they are read"))
                     : Result<void>();
    });
}

std::vector<AddrRange> memory_served_by_itself(Tid pid) {
    const auto none =
        check_descriptors(pid, [](const std::string& name, const std::string& /*info*/) {
            return name != kFaults ? Result<void>() : Error("there is one");
        });
    std::vector<AddrRange> result;
    if (!none) {
        if (auto flagged = read_flagged_mappings(pid, "um", "ui")) { // missing, minor faults
            result = std::move(flagged->first);
            result.insert(result.end(), flagged->second.begin(), flagged->second.end());
        }
    }
    return result;
}

// mm/hugetlb.c, hugetlb_wp(): where the pool has no page left, a write of the process takes the
// page from the copy, which we read, or, where none was reserved (MAP_NORESERVE, or a child of who
// has mapped it), fails with SIGBUS. Counters first: the flags cost a walk of all page tables.
Result<void> check_huge_pages_copyable(Tid pid) {
    const auto status =
        try_read_proc_file(fmt::format("/proc/{}/status", living_thread(pid).value()));
    if (named_kib(status.value_or(""), "HugetlbPages:").value_or(0) == 0) {
        return {};
    }
    const auto mappings = read_maps(pid);
    const auto of_pool = read_flagged_mappings(pid, "ht");
    if (!mappings || !of_pool) {
        return has_huge_pages();
    }
    const bool has_private =
        std::any_of(mappings->begin(), mappings->end(), [&](const Mapping& mapping) {
            return !mapping.shared &&
                   std::any_of(of_pool->begin(), of_pool->end(), [&](const AddrRange& range) {
                       return range.overlaps(mapping.range);
                   });
        });
    return has_private ? has_huge_pages() : Result<void>();
}

} // namespace memleax

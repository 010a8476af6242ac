// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/mapping_query.hpp"

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "memleax/proc/living_thread.hpp"

namespace memleax {

namespace {

/// struct procmap_query of <linux/fs.h>, which is younger than the C library's headers may be.
struct Query {
    std::uint64_t size = sizeof(Query);
    std::uint64_t flags = 0; ///< 0: a mapping that covers the address, of whatever kind
    std::uint64_t address = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t unused[5]{};        ///< its flags, page size, offset, inode, device
    std::uint32_t name_bytes = 0;     ///< the room for it and its zero, then what it takes; 0: none
    std::uint32_t build_id_bytes = 0; ///< 0: no build ID is wanted
    std::uint64_t name = 0;
    std::uint64_t build_id = 0;
};
constexpr unsigned long kQuery = _IOWR('f', 17, Query);
static_assert(sizeof(Query) == 104);

} // namespace

MappingQuery::~MappingQuery() {
    forget();
}

void MappingQuery::forget() {
    if (fd_ >= 0) {
        close(fd_);
    }
    fd_ = -1;
}

std::optional<AddrRange> MappingQuery::covering(RemoteAddr address, std::string* name) {
    if (!works_) {
        return std::nullopt;
    }
    if (fd_ < 0) {
        const std::string path = fmt::format("/proc/{}/maps", living_thread(pid_).value());
        fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    }
    Query query;
    query.address = address.value();
    std::array<char, PATH_MAX> name_room; // NOLINT(cppcoreguidelines-pro-type-member-init): 4 KiB
    if (name != nullptr) {
        query.name_bytes = name_room.size();
        query.name = reinterpret_cast<std::uint64_t>(name_room.data());
    }
    if (fd_ < 0 || ioctl(fd_, kQuery, &query) != 0) {
        // It can be asked, and there is none, or no address space any more.
        works_ = fd_ >= 0 && (errno == ENOENT || errno == ESRCH);
        return std::nullopt;
    }
    if (name != nullptr) {
        *name = query.name_bytes == 0 ? "" : name_room.data();
    }
    return AddrRange{query.begin, query.end};
}

} // namespace memleax

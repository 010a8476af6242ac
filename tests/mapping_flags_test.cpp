// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/mapping_flags.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace memleax {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kTwo = "1000-3000 rw-p 00000000 00:00 0 \n"
                             "Size:                  8 kB\n"
                             "VmFlags: rd wr mr mw me ac sd \n"
                             "5000-6000 rw-p 00000000 00:00 0    /a wf\n"
                             "Size:                  4 kB\n"
                             "VmFlags: rd wr mr mw me ac wf \n";

TEST(MappingFlags, AreThoseOfTheLineAbove) {
    EXPECT_THAT(parse_flagged_mappings(kTwo, "wf").value(), ElementsAre(AddrRange{0x5000, 0x6000}));
    EXPECT_THAT(parse_flagged_mappings(kTwo, "sd").value(), ElementsAre(AddrRange{0x1000, 0x3000}));
    EXPECT_THAT(parse_flagged_mappings(kTwo, "dc").value(), IsEmpty());
}

TEST(MappingFlags, AreNotKnownWhereAMappingHasNone) {
    EXPECT_EQ(parse_flagged_mappings("1000-3000 rw-p 0 00:00 0\nSize: 8 kB\n", "wf"), std::nullopt);
    EXPECT_EQ(parse_flagged_mappings(
                  "1000-3000 rw-p 0 00:00 0\n5000-6000 rw-p 0 00:00 0\nVmFlags: wf\n", "wf"),
              std::nullopt);
}

TEST(MappingFlags, AreTheKernels) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* at = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    ASSERT_EQ(madvise(at, page, MADV_WIPEONFORK), 0);
    const auto begin = reinterpret_cast<std::uintptr_t>(at);
    EXPECT_THAT(read_flagged_mappings(Tid(getpid()), "wf").value(),
                ElementsAre(AddrRange{begin, begin + page}));
    munmap(at, page);
}

} // namespace
} // namespace memleax

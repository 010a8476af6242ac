// SPDX-License-Identifier: GPL-3.0-or-later
// How large the huge pages of anonymous memory may be, and where one is: in this process.
#include "../src/faults/huge_pages.hpp"

#include <filesystem>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "elf_support.hpp"

namespace memleax {
namespace {

class HugePageSettings : public ::testing::Test {
  protected:
    void set(const std::string& file, const std::string& text) {
        const std::filesystem::path path = folder.file(file);
        std::filesystem::create_directories(path.parent_path());
        test::write_file(path, text + "\n");
    }
    [[nodiscard]] std::optional<HugePageSizes> sizes() const {
        return read_huge_page_sizes(folder.file(""));
    }

    test::TemporaryFolder folder;
};

TEST_F(HugePageSettings, AKernelWithoutThem) {
    EXPECT_EQ(sizes(), std::nullopt);
    EXPECT_EQ(read_huge_page_sizes(folder.file("none")), std::nullopt);
}

TEST_F(HugePageSettings, OneSize) {
    set("hpage_pmd_size", "2097152");
    set("enabled", "always madvise [never]");
    EXPECT_EQ(sizes(), std::nullopt);
    for (const char* choice : {"[always] madvise never", "always [madvise] never"}) {
        set("enabled", choice);
        EXPECT_EQ(sizes(), (HugePageSizes{2 << 20, 2 << 20})) << choice;
    }
}

TEST_F(HugePageSettings, SeveralSizes) {
    set("enabled", "always [madvise] never");
    set("hpage_pmd_size", "2097152");
    set("hugepages-2048kB/enabled", "always [inherit] madvise never");
    set("hugepages-1024kB/enabled", "always inherit madvise [never]");
    set("hugepages-64kB/enabled", "[always] inherit madvise never");
    set("hugepages-16kB/enabled", "always inherit madvise [never]");
    set("khugepaged/defrag", "1");
    EXPECT_EQ(sizes(), (HugePageSizes{64 << 10, 2 << 20}));
    set("enabled", "always madvise [never]");
    EXPECT_EQ(sizes(), (HugePageSizes{64 << 10, 64 << 10}));
    set("hugepages-64kB/enabled", "always inherit madvise [never]");
    EXPECT_EQ(sizes(), std::nullopt);
}

TEST(HugePages, AreFoundFromAnyOfTheirPages) {
    const auto sizes = read_huge_page_sizes();
    if (!sizes || geteuid() != 0) {
        GTEST_SKIP() << "this kernel makes no huge pages, or only root may see them";
    }
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t huge = sizes->largest;
    void* const room = mmap(nullptr, 4 * huge, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(room, MAP_FAILED);
    const std::uint64_t begin = (reinterpret_cast<std::uint64_t>(room) + huge - 1) & ~(huge - 1);
    const auto touch = [](std::uint64_t address) {
        *reinterpret_cast<volatile char*>(address) = 1;
    };
    const AddrRange first{begin, begin + huge};
    const AddrRange second{begin + huge, begin + 2 * huge};
    ASSERT_EQ(madvise(reinterpret_cast<void*>(second.begin), huge, MADV_NOHUGEPAGE), 0);
    ASSERT_EQ(madvise(reinterpret_cast<void*>(first.begin), huge, MADV_HUGEPAGE), 0);
    touch(first.begin + 3 * page + 10);
    touch(second.begin);
    // One that lost a part is split when memory is scarce, unless somebody else holds it, too.
    int holder[2];
    ASSERT_EQ(pipe(holder), 0);
    const iovec held{reinterpret_cast<void*>(first.begin + 3 * page), 1};
    ASSERT_EQ(vmsplice(holder[1], &held, 1, 0), 1);

    HugePages pages(test::own_pid());
    for (const std::uint64_t offset : {std::uint64_t{0}, 3 * page + 10, huge - 1}) {
        EXPECT_EQ(pages.at(RemoteAddr(first.begin + offset)), first) << offset;
    }
    EXPECT_TRUE(pages.at(RemoteAddr(second.begin)).empty());
    EXPECT_TRUE(pages.at(RemoteAddr(second.begin + page)).empty()); // nobody has touched it
    // What is left of it is known by where it was.
    ASSERT_EQ(madvise(reinterpret_cast<void*>(first.begin), 2 * page, MADV_DONTNEED), 0);
    EXPECT_TRUE(pages.at(RemoteAddr(first.begin)).empty());
    EXPECT_EQ(pages.at(RemoteAddr(first.begin + 2 * page)), first);
    close(holder[0]);
    close(holder[1]);
    munmap(room, 4 * huge);
}

} // namespace
} // namespace memleax

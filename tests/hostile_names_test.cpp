// SPDX-License-Identifier: GPL-3.0-or-later
// A target whose symbols, source files, path and name are made to play with the terminal: none of
// it gets there.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "elf_support.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/elf/elf_image.hpp"
#include "process_support.hpp"

namespace memleax::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Both as long as what they take the place of.
const std::string kFunction = "\x1b[2J\n\xe2\x80\xae!"; // clears the screen, turns the writing
const std::string kSource = "\x1b]0;x\x07\ne.c";        // sets the window's title

/// In what is not loaded: the program itself goes by the old names.
void replace_names(const std::string& path) {
    std::string bytes = test::read_file(path);
    std::size_t loaded = 0;
    const auto image = ElfImage::open(path);
    ASSERT_TRUE(image);
    for (const ElfSegment& segment : (*image)->segments()) {
        loaded = std::max<std::size_t>(loaded, segment.offset.value() + segment.file_size);
    }
    const auto replace = [&](const std::string& from, const std::string& to) {
        ASSERT_EQ(from.size(), to.size());
        unsigned found = 0;
        for (auto at = bytes.find(from, loaded); at != std::string::npos;
             at = bytes.find(from, at + 1), ++found) {
            bytes.replace(at, to.size(), to);
        }
        ASSERT_GT(found, 0U) << from;
    };
    replace("slow_leak", kFunction);
    replace("expiring.c", kSource);
    std::ofstream(path, std::ios::binary) << bytes;
}

/// Nothing but lines of printable text.
void expect_harmless(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        EXPECT_EQ(line, printable(line));
        EXPECT_FALSE(line.starts_with("!")) << "a name has begun a line";
    }
}

TEST(HostileNames, DoNotReachTheTerminal) {
    const test::TemporaryFolder folder;
    const std::string path = folder.file("\x1b[31mbad\r\n\xe2\x80\xae");
    test::copy_file(fixture_path("expiring"), path);
    fs::permissions(path, fs::perms(0755));
    replace_names(path);
    ChildProcess target({path});
    ASSERT_EQ(target.read_line(), "ready");

    Memleax memleax({"-e", "0.01", "-x", "stats", "-x", "list", "-x", "blocks 1", "-x", "modules",
                     "-x", "threads", "-x", "status", "-x", "dump all",
                     std::to_string(target.pid())});
    memleax.wait_until_watching();
    target.send("leak");
    ASSERT_TRUE(target.read_line());
    std::string live;
    while (const auto line = memleax.process().read_line()) {
        live += *line + "\n";
        if (line->find("expires with") != std::string::npos) {
            break;
        }
    }
    EXPECT_THAT(live, HasSubstr("expires with 101 bytes"));
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("?[2J?"
                                         "?!()"));
    EXPECT_THAT(result.output, HasSubstr("?]0;x??e.c:"));
    EXPECT_THAT(result.errors, HasSubstr("(?[31mbad?"));
    expect_harmless(result.output);
    expect_harmless(result.errors);
    target.send("quit");
    EXPECT_EQ(target.wait_for_end(), 0);
}

/// Errors name the target, too.
TEST(HostileNames, NorInARefusal) {
    const test::TemporaryFolder folder;
    const std::string path = folder.file("\x1b[31mbad\n");
    test::copy_file(fixture_path("no_allocator"), path);
    fs::permissions(path, fs::perms(0755));
    ChildProcess target({path});
    ASSERT_TRUE(target.read_line());
    Memleax memleax({std::to_string(target.pid())});
    const auto result = memleax.finish();
    EXPECT_NE(result.status, 0);
    EXPECT_THAT(result.errors, HasSubstr("?[31mbad?"));
    expect_harmless(result.errors);
    target.signal(SIGKILL);
    target.wait_for_end();
}

} // namespace
} // namespace memleax::testing

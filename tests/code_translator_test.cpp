// SPDX-License-Identifier: GPL-3.0-or-later
// Programs that valgrind runs: known by their tool, refused, and left alone.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elf_support.hpp"
#include "memleax/proc/code_translator.hpp"
#include "memleax/proc/process_info.hpp"
#include "process_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kWords = "it is run by valgrind";
constexpr const char* kCore = "vgpreload_core-amd64-linux.so";

TEST(ValgrindTool, NamesItsCoreLibrary) {
    EXPECT_EQ(core_of_valgrind_tool("/usr/libexec/valgrind/memcheck-amd64-linux"), kCore);
    EXPECT_EQ(core_of_valgrind_tool("/opt/v/lib/exp-bbv-amd64-linux"), kCore);
    EXPECT_EQ(core_of_valgrind_tool("none-arm64-linux"), "vgpreload_core-arm64-linux.so");
    for (const char* other :
         {"", "/", "/usr/lib/valgrind/", "/usr/bin/valgrind.bin", "/opt/valgrind/bin/server",
          "/usr/bin/amd64-linux", "/usr/bin/-amd64-linux", "/usr/bin/tool--linux",
          "/usr/bin/-linux", "/usr/bin/server-linux", "/usr/bin/server-linux-amd64",
          "/usr/bin/memcheck-amd64-linux.old", "/memcheck-amd64-linux/server"}) {
        EXPECT_EQ(core_of_valgrind_tool(other), "") << other;
    }
}

/// A program of fixtures/ under another name, in a folder that may have the core library.
class NamedLikeATool : public ::testing::Test {
  protected:
    [[nodiscard]] bool is_refused(const std::string& fixture, const std::string& name) const {
        const std::string program = folder_.file(name);
        test::copy_file(fixture_path(fixture), program);
        ChildProcess process({program});
        EXPECT_TRUE(process.read_line()); // it runs
        const auto watchable = check_watchable(Tid(process.pid()));
        EXPECT_TRUE(watchable || watchable.error().message().find(kWords) != std::string::npos)
            << watchable.error().message();
        EXPECT_EQ(is_run_by_valgrind(Tid(process.pid())), !watchable);
        process.signal(SIGKILL);
        process.wait_for_end();
        std::filesystem::remove(program);
        return !watchable;
    }
    void put_core_there() const { test::write_file(folder_.file(kCore), "core"); }

    test::TemporaryFolder folder_;
};

TEST_F(NamedLikeATool, IsNoneWithoutItsCore) {
    EXPECT_FALSE(is_refused("no_allocator", "server-amd64-linux"));
    EXPECT_FALSE(is_refused("no_allocator", "memcheck-amd64-linux"));
}

TEST_F(NamedLikeATool, IsOneWithItsCoreBesideIt) {
    put_core_there();
    EXPECT_TRUE(is_refused("no_allocator", "memcheck-amd64-linux"));
    EXPECT_TRUE(is_refused("no_allocator", "another-tool-amd64-linux"));
}

// As getoff-amd64-linux, which valgrind runs to read debug information.
TEST_F(NamedLikeATool, IsNoneWithADynamicLinker) {
    put_core_there();
    EXPECT_FALSE(is_refused("cross_thread_free", "memcheck-amd64-linux"));
}

TEST_F(NamedLikeATool, IsNoneOfAnotherPlatformOrName) {
    put_core_there();
    EXPECT_FALSE(is_refused("no_allocator", "memcheck-riscv64-linux"));
    EXPECT_FALSE(is_refused("no_allocator", "valgrind"));
}

class Valgrind : public ::testing::Test {
  protected:
    void SetUp() override {
        if (access(kProgram, X_OK) != 0) {
            GTEST_SKIP() << "valgrind is not installed";
        }
    }
    static Fixture run(const std::string& tool, const Environment& environment = {}) {
        return Fixture(
            CommandLine{{kProgram, "-q", "--tool=" + tool, "--" + tool + "-out-file=/dev/null",
                         fixture_path("cross_thread_free")}},
            environment);
    }
    static void expect_refusal(Fixture& fixture) {
        const std::string pid = std::to_string(fixture.pid());
        using Arguments = std::vector<std::string>;
        for (const Arguments& arguments :
             {Arguments{"-t", "1", pid}, Arguments{"-f", "-t", "1", pid},
              Arguments{"--leak-check", pid}}) {
            Memleax memleax(arguments);
            const auto result = memleax.finish();
            EXPECT_TRUE(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 1)
                << result.status;
            EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1)
                << result.errors;
            EXPECT_THAT(result.errors, HasSubstr(kWords));
            EXPECT_EQ(result.output, "");
        }
        EXPECT_THAT(fixture.go().failures, IsEmpty());
        EXPECT_EQ(fixture.quit(), 0);
    }

    static constexpr const char* kProgram = "/usr/bin/valgrind";
};

TEST_F(Valgrind, WhatItRunsIsRefused) {
    for (const char* tool : {"massif", "cachegrind"}) {
        Fixture fixture = run(tool);
        expect_refusal(fixture);
    }
}

// The tool is in one folder, and all else in another.
TEST_F(Valgrind, IsKnownInFoldersOfAnotherName) {
    const test::TemporaryFolder tools;
    const test::TemporaryFolder libraries;
    Fixture installed = run("massif");
    const std::filesystem::path tool = executable_path(Tid(installed.pid()));
    EXPECT_EQ(installed.quit(), 0);
    const std::string moved = tools.file(tool.filename());
    std::filesystem::copy(tool, moved);
    for (const auto& entry : std::filesystem::directory_iterator(tool.parent_path())) {
        const std::string name = entry.path().filename();
        const std::string link = libraries.file(name);
        if (name == tool.filename()) {
            std::filesystem::create_symlink(moved, link);
        } else if (name.starts_with("vgpreload")) {
            std::filesystem::copy(entry.path(), link);
        }
    }
    Fixture fixture = run("massif", {{"VALGRIND_LIB", libraries.file("")}});
    ASSERT_EQ(executable_path(Tid(fixture.pid())), moved);
    expect_refusal(fixture);
}

TEST_F(Valgrind, AChildThatBecomesOneIsLeftAlone) {
    const test::TemporaryFolder folder;
    const std::string made = folder.file("made");
    Memleax memleax(
        {"-f", "-F", "json", "--", "/bin/sh", "-c",
         std::string(kProgram) + " -q --tool=none /usr/bin/touch " + made + "; exit 3"});
    const auto result = memleax.finish();
    EXPECT_TRUE(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 3) << result.status;
    const std::size_t told = result.errors.find(kWords);
    ASSERT_NE(told, std::string::npos) << result.errors;
    EXPECT_EQ(result.errors.find(kWords, told + 1), std::string::npos) << result.errors;
    EXPECT_TRUE(std::filesystem::exists(made));
}

TEST_F(Valgrind, ALaunchedOneIsLeftAlone) {
    const test::TemporaryFolder folder;
    const std::string made = folder.file("made");
    Memleax memleax({"-F", "json", "--", kProgram, "-q", "--tool=none", "/usr/bin/touch", made});
    const auto result = memleax.finish(); // the other one has the same standard error
    EXPECT_TRUE(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 1) << result.status;
    const std::size_t told = result.errors.find(kWords);
    ASSERT_NE(told, std::string::npos) << result.errors;
    EXPECT_EQ(result.errors.find(kWords, told + 1), std::string::npos) << result.errors;
    EXPECT_TRUE(std::filesystem::exists(made));
}

} // namespace
} // namespace memleax::testing

// SPDX-License-Identifier: GPL-3.0-or-later
// Targets whose ELF files are gone, replaced, cut short, unreadable or bare: memleax works with
// what it has, or says in one line what is missing; it never dies, and the target goes on.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build_paths.hpp"
#include "elf_support.hpp"
#include "leaks_support.hpp"
#include "memleax/proc/process_info.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A command as a user without privileges runs it: those who may follow /proc/PID/map_files find
/// every file again.
std::vector<std::string> unprivileged(const std::vector<std::string>& command) {
    if (geteuid() != 0) {
        return command;
    }
    std::vector<std::string> result{"/usr/bin/setpriv", "--reuid=65534", "--regid=65534",
                                    "--clear-groups"};
    result.insert(result.end(), command.begin(), command.end());
    return result;
}

bool others_may_run_us() {
    ChildProcess memleax(unprivileged({MEMLEAX_PROGRAM, "--version"}));
    return memleax.wait_for_end() == 0;
}

/// A copy of a file of fixtures/, for a test to ill-treat; others may read and run it.
std::string copy_of(const TemporaryFolder& folder, const std::string& name) {
    const std::string path = folder.file(name);
    test::copy_file(fixture_path(name), path);
    fs::permissions(path, fs::perms(0755));
    return path;
}

void replace(const std::string& path) {
    test::write_file(path + ".new", "something else\n");
    fs::rename(path + ".new", path);
}

/// Takes the section headers, and what only they lead to, from a file: sstrip(1) does that.
void remove_sections(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    Elf64_Ehdr header;
    file.read(reinterpret_cast<char*>(&header), sizeof header);
    header.e_shoff = 0;
    header.e_shnum = 0;
    header.e_shstrndx = 0;
    file.seekp(0);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    ASSERT_TRUE(file);
}

/// The size up to which the file is mapped.
std::uint64_t loaded_size(const std::string& path) {
    const auto image = ElfImage::open(path);
    std::uint64_t size = 0;
    for (const ElfSegment& segment : (*image)->segments()) {
        size = std::max(size, segment.offset.value() + segment.file_size);
    }
    constexpr std::uint64_t kPage = 4096;
    return (size + kPage - 1) / kPage * kPage;
}

/// A fixture that is started by a command line, and says "ready".
void expect_ready(ChildProcess& process) {
    const auto line = process.read_line();
    ASSERT_EQ(line, "ready") << process.errors();
}

FixtureAnswer ask(ChildProcess& process, const std::string& command) {
    process.send(command);
    return read_answer(process);
}

int quit(ChildProcess& process) {
    process.send("quit");
    return process.wait_for_end();
}

std::vector<std::string> memleax_command(pid_t pid) {
    return {MEMLEAX_PROGRAM, "-F", "json", "-e", "1000", std::to_string(pid)};
}

/// Watches one round; what is reported must be the fixture's truth, and the target left as it was.
std::string expect_truth_of_round(ChildProcess& target, std::vector<std::string> command) {
    const TargetSnapshot before = take_snapshot(target.pid());
    ChildProcess memleax(std::move(command));
    EXPECT_TRUE(memleax.find_error_line("watching")) << memleax.errors();
    const FixtureAnswer answer = ask(target, "go");
    memleax.signal(SIGINT);
    EXPECT_EQ(memleax.wait_for_end(), 0) << memleax.errors();
    expect_truth(nlohmann::json::parse(memleax.output()), answer);
    EXPECT_THAT(differences(before, take_snapshot(target.pid()), Meanwhile::worked), IsEmpty());
    return memleax.errors();
}

/// Status 1, nothing on stdout, one line on stderr.
std::string expect_one_line_of_refusal(ChildProcess& memleax) {
    const int status = memleax.wait_for_end();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
    EXPECT_EQ(std::count(memleax.errors().begin(), memleax.errors().end(), '\n'), 1)
        << memleax.errors();
    EXPECT_EQ(memleax.output(), "");
    return memleax.errors();
}

TEST(ReplacedOnDisk, TheProgramIsStillRead) {
    for (const bool deleted : {false, true}) {
        const TemporaryFolder folder;
        const std::string path = copy_of(folder, "threads16");
        ChildProcess target({path});
        expect_ready(target);
        deleted ? void(fs::remove(path)) : replace(path);
        expect_truth_of_round(target, memleax_command(target.pid()));
        EXPECT_EQ(quit(target), 0);
    }
}

/// /proc/PID/exe needs no more privilege than ptrace does.
TEST(ReplacedOnDisk, TheProgramIsStillReadWithoutPrivileges) {
    if (!others_may_run_us()) {
        GTEST_SKIP() << "the program's folder is not open to others";
    }
    for (const bool deleted : {false, true}) {
        const TemporaryFolder folder;
        const std::string path = copy_of(folder, "threads16");
        ChildProcess target(unprivileged({path}));
        expect_ready(target);
        deleted ? void(fs::remove(path)) : replace(path);
        ChildProcess memleax(unprivileged(memleax_command(target.pid())));
        ASSERT_TRUE(memleax.find_error_line("watching")) << memleax.errors();
        const FixtureAnswer answer = ask(target, "go");
        memleax.signal(SIGINT);
        EXPECT_EQ(memleax.wait_for_end(), 0) << memleax.errors();
        expect_truth(nlohmann::json::parse(memleax.output()), answer);
        EXPECT_EQ(quit(target), 0);
    }
}

/// The process runs with libraries of its own, in a folder that the test may ill-treat.
class OwnLibraries {
  public:
    explicit OwnLibraries(const TemporaryFolder& folder) : libc_(folder.file("libc.so.6")) {
        test::copy_file(test::library_path("libc.so.6"), libc_);
        fs::permissions(libc_, fs::perms(0755));
    }
    [[nodiscard]] const std::string& libc() const { return libc_; }
    [[nodiscard]] std::vector<std::string> command(const std::string& fixture) const {
        return {"/usr/bin/env", "LD_LIBRARY_PATH=" + fs::path(libc_).parent_path().string(),
                "LD_BIND_NOW=1", fixture_path(fixture)};
    }

  private:
    std::string libc_;
};

TEST(ReplacedOnDisk, ALibraryIsStillReadWithPrivileges) {
    if (geteuid() != 0 || !fs::exists(fmt::format("/proc/{}/map_files", getpid()))) {
        GTEST_SKIP() << "needs /proc/PID/map_files, and the right to follow its links";
    }
    const TemporaryFolder folder;
    const OwnLibraries libraries(folder);
    ChildProcess target(libraries.command("threads16"));
    expect_ready(target);
    replace(libraries.libc());
    expect_truth_of_round(target, memleax_command(target.pid()));
    EXPECT_EQ(quit(target), 0);
}

TEST(ReplacedOnDisk, ALibcThatCannotBeReadIsNamed) {
    if (!others_may_run_us()) {
        GTEST_SKIP() << "the program's folder is not open to others";
    }
    struct Case {
        void (*spoil)(const std::string&);
        const char* text;
    };
    const Case cases[] = {
        {replace, "libc.so.6: the file was replaced on disk since the process started"},
        {[](const std::string& path) { fs::remove(path); },
         "libc.so.6: the file was deleted on disk since the process loaded it"},
        {[](const std::string& path) { fs::permissions(path, fs::perms(0000)); },
         "libc.so.6: cannot open the file: Permission denied"},
        {[](const std::string& path) {
             fs::remove(path);
             ASSERT_EQ(mkfifo(path.c_str(), 0666), 0);
         },
         "libc.so.6: there is another kind of file in its place"},
        {[](const std::string& path) {
             fs::remove(path);
             fs::create_symlink("/dev/zero", path);
         },
         "libc.so.6: there is another kind of file in its place"}};
    for (const auto& [spoil, text] : cases) {
        const TemporaryFolder folder;
        const OwnLibraries libraries(folder);
        ChildProcess target(unprivileged(libraries.command("threads16")));
        expect_ready(target);
        spoil(libraries.libc());
        ChildProcess memleax(unprivileged(memleax_command(target.pid())));
        EXPECT_THAT(expect_one_line_of_refusal(memleax),
                    AllOf(HasSubstr("no allocator found"), HasSubstr(text)));
        EXPECT_THAT(ask(target, "go").failures, IsEmpty());
        EXPECT_EQ(quit(target), 0);
    }
}

/// "ready" comes a few instructions before the wait for an answer.
void wait_until_asleep(pid_t pid) {
    const auto is_asleep = [pid](Tid tid) {
        const auto kernel = try_read_kernel_state(Tid(pid), tid);
        return kernel && kernel->state == 'S' && kernel->system_call;
    };
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    const auto tids = list_threads(Tid(pid));
    while (!std::all_of(tids.begin(), tids.end(), is_asleep)) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        ::poll(nullptr, 0, 1);
    }
}

/// The target sleeps in read(2) and is killed there: it never touches the pages that it has lost.
TEST(Truncated, ALibcThatIsCutIsNamed) {
    const TemporaryFolder folder;
    const OwnLibraries libraries(folder);
    ChildProcess target(libraries.command("threads16"));
    expect_ready(target);
    wait_until_asleep(target.pid());
    fs::resize_file(libraries.libc(), 10000);
    ChildProcess memleax(memleax_command(target.pid()));
    EXPECT_THAT(
        expect_one_line_of_refusal(memleax),
        AllOf(HasSubstr("no allocator found"), HasSubstr("libc.so.6: the file is truncated")));
    target.signal(SIGKILL);
    target.wait_for_end();
}

/// Cut behind what is mapped, which a process does not notice: its section headers are gone, and
/// with them .symtab and the debug information.
TEST(Truncated, BehindWhatIsLoadedLittleIsMissing) {
    const TemporaryFolder folder;
    const OwnLibraries libraries(folder);
    ChildProcess target(libraries.command("threads16"));
    expect_ready(target);
    const auto size = loaded_size(libraries.libc());
    ASSERT_LT(size, fs::file_size(libraries.libc()));
    fs::resize_file(libraries.libc(), size);
    expect_truth_of_round(target, memleax_command(target.pid()));
    EXPECT_EQ(quit(target), 0);
}

/// A preloaded library that nobody calls, with everything bound at the start: its pages are not
/// touched before the end, which the target does not live to see.
TEST(Truncated, AnUnusedLibraryIsNotNeeded) {
    const TemporaryFolder folder;
    const std::string plugin = copy_of(folder, "libleaky_plugin_a.so");
    ChildProcess target({fixture_path("recursion")},
                        {{"LD_PRELOAD", plugin}, {"LD_BIND_NOW", "1"}});
    expect_ready(target);
    fs::resize_file(plugin, 100);
    ChildProcess memleax(memleax_command(target.pid()));
    ASSERT_TRUE(memleax.find_error_line("watching")) << memleax.errors();
    const FixtureAnswer answer = ask(target, "go");
    memleax.signal(SIGINT);
    EXPECT_EQ(memleax.wait_for_end(), 0) << memleax.errors();
    expect_truth(nlohmann::json::parse(memleax.output()), answer);
    target.signal(SIGKILL);
    target.wait_for_end();
}

/// Reads live lines up to a stack's last frame.
std::string read_live_stack(ChildProcess& memleax) {
    std::string text;
    while (const auto line = memleax.read_line()) {
        text += *line + "\n";
        if (line->find("  _start()") != std::string::npos || line->starts_with("Warning")) {
            break;
        }
    }
    return text;
}

/// libdw maps the files with debug information; a page that a file loses raises SIGBUS in whoever
/// touches it then.
TEST(Truncated, ADebugFileMayLosePagesWhileItIsRead) {
    for (const bool empty : {true, false}) {
        const TemporaryFolder folder;
        const std::string debug_file = copy_of(folder, "expiring");
        Fixture target("expiring");
        const TargetSnapshot before = take_snapshot(target.pid());
        Memleax memleax({"-e", "0.01", "-d", debug_file, std::to_string(target.pid())});
        memleax.wait_until_watching();
        target.ask("leak");
        EXPECT_THAT(read_live_stack(memleax.process()), HasSubstr("slow_leak()+"));
        fs::resize_file(debug_file, empty ? 0 : 4096); // it is open, and mapped
        target.ask("hold");
        EXPECT_THAT(read_live_stack(memleax.process()), HasSubstr("expires with 202 bytes"));
        target.ask("stacks 5");
        EXPECT_TRUE(memleax.process().find_error_line("was truncated while it was read"));
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(result.output, HasSubstr("may-leak=1 (202 bytes)"));
        EXPECT_EQ(result.errors.find("truncated"), result.errors.rfind("truncated"))
            << "once is enough: " << result.errors;
        EXPECT_THAT(differences(before, take_snapshot(target.pid()), Meanwhile::worked), IsEmpty());
        EXPECT_EQ(target.quit(), 0);
    }
}

TEST(Truncated, ADebugFileThatIsCutAtTheStartIsRefused) {
    const TemporaryFolder folder;
    const std::string debug_file = copy_of(folder, "expiring");
    Fixture target("expiring");
    for (const std::uint64_t size : {0, 3, 63, 64, 1000, 5000}) {
        fs::resize_file(debug_file, size);
        Memleax memleax({"-d", debug_file, std::to_string(target.pid())});
        EXPECT_THAT(expect_one_line_of_refusal(memleax.process()), HasSubstr(debug_file));
    }
    EXPECT_EQ(target.quit(), 0);
}

TEST(DebugFile, WhatIsNoFileIsRefusedAndNotWaitedFor) {
    const TemporaryFolder folder;
    const std::string fifo = folder.file("fifo");
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    Fixture target("expiring");
    for (const std::string& path : {fifo, std::string("/dev/zero"), std::string("/")}) {
        Memleax memleax({"-d", path, std::to_string(target.pid())});
        EXPECT_THAT(expect_one_line_of_refusal(memleax.process()),
                    HasSubstr(path + ": not a regular file"));
    }
    EXPECT_EQ(target.quit(), 0);
}

TEST(DebugFile, OfAnotherBuildIsWarnedOf) {
    Fixture target("expiring");
    for (const char* file : {"expiring", "recursion"}) {
        const std::string path = fixture_path(file);
        Memleax memleax({"-F", "json", "-e", "1000", "-d", path, std::to_string(target.pid())});
        memleax.wait_until_watching();
        target.ask("leak");
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        const auto warning = HasSubstr(path + " does not belong to " + fixture_path("expiring"));
        if (file == std::string("expiring")) {
            EXPECT_THAT(result.errors, Not(warning));
        } else {
            EXPECT_THAT(result.errors, warning);
        }
    }
    EXPECT_EQ(target.quit(), 0);
}

/// Only the dynamic symbols of libc and the unwind tables are left: allocations are found, and the
/// stacks are whole.
TEST(WithoutSectionHeaders, LibcAndProgramAreStillWatched) {
    const TemporaryFolder folder;
    const OwnLibraries libraries(folder);
    remove_sections(libraries.libc());
    const std::string path = copy_of(folder, "recursion");
    remove_sections(path);
    auto command = libraries.command("recursion");
    command.back() = path;
    ChildProcess target(command);
    expect_ready(target);
    const TargetSnapshot before = take_snapshot(target.pid());
    auto watch = memleax_command(target.pid());
    watch.insert(watch.begin() + 1, {"-l", "256"});
    ChildProcess memleax(watch);
    ASSERT_TRUE(memleax.find_error_line("watching")) << memleax.errors();
    const FixtureAnswer answer = ask(target, "go");
    memleax.signal(SIGINT);
    EXPECT_EQ(memleax.wait_for_end(), 0) << memleax.errors();
    EXPECT_THAT(differences(before, take_snapshot(target.pid()), Meanwhile::worked), IsEmpty());
    const auto report = nlohmann::json::parse(memleax.output());
    Leak truth;
    for (const auto& [function, leak] : answer.truth) {
        truth.blocks += leak.blocks;
        truth.bytes += leak.bytes;
    }
    EXPECT_EQ(report.at("totals").at("live_blocks"), truth.blocks);
    EXPECT_EQ(report.at("totals").at("live_bytes"), truth.bytes);
    // As in Recursion.EveryFrameIsThere: a block's size tells how deep it was. The functions have
    // no names any more; main's callers in libc have.
    for (const auto& stack : report.at("callstacks")) {
        const std::int64_t size = stack.at("live_bytes").get<std::int64_t>() /
                                  stack.at("live_blocks").get<std::int64_t>();
        std::int64_t of_program = 0;
        for (const auto& frame : stack.at("frames")) {
            of_program += frame.value("module", "") == "recursion";
        }
        EXPECT_GT(of_program, size - 1000) << stack.dump();
        EXPECT_EQ(stack.at("frames").at(0).value("function", ""), "malloc");
    }
    EXPECT_EQ(quit(target), 0);
}

/// An executable that its user may run, but not read, is not for other processes of that user.
TEST(Unreadable, TheProgramIsRefused) {
    if (!others_may_run_us()) {
        GTEST_SKIP() << "the program's folder is not open to others";
    }
    const TemporaryFolder folder;
    const std::string path = copy_of(folder, "threads16");
    fs::permissions(path, fs::perms(geteuid() == 0 ? 0711 : 0111));
    ChildProcess target(unprivileged({path}));
    expect_ready(target);
    ChildProcess memleax(unprivileged(memleax_command(target.pid())));
    EXPECT_THAT(expect_one_line_of_refusal(memleax), HasSubstr("cannot watch process"));
    EXPECT_THAT(ask(target, "go").failures, IsEmpty());
    EXPECT_EQ(quit(target), 0);
}

} // namespace
} // namespace memleax::testing

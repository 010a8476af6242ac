// SPDX-License-Identifier: GPL-3.0-or-later
// The commands about the watched processes: their heaps, threads, modules, and leaving them.
#include <algorithm>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands_support.hpp"
#include "elf_support.hpp"
#include "leaks_support.hpp"
#include "program_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Command_processes, ListsWhatIsWatched) {
    Fixture fixture("alloc_all-O2-nofp-pie");
    Commands commands_of(fixture.pid(), {"-q"});
    EXPECT_THAT(commands_of.output_of("processes"), HasSubstr(fmt::format("{}", fixture.pid())));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Command_process, TellsWhichOne) {
    Fixture fixture("alloc_all-O2-nofp-pie");
    Commands commands_of(fixture.pid(), {"-q"});
    const std::string one = fmt::format("Process 1 is {} (", fixture.pid());
    EXPECT_THAT(commands_of.output_of("process"), HasSubstr(one));
    EXPECT_THAT(commands_of.output_of("process 1"), HasSubstr(one));
    EXPECT_EQ(fixture.quit(), 0);
}

/// Of what keeps blocks; --leak-check knows no heap of other CPUs yet.
class HeldBlocks : public ::testing::Test {
  protected:
    void SetUp() override {
        fixture_.emplace("held_blocks");
        commands_.emplace(fixture_->pid());
        for (const std::string& line : fixture_->go().other) {
            if (line.starts_with("newest ")) {
                newest_ = line.substr(line.find(' ') + 1);
            }
        }
        ASSERT_THAT(newest_, StartsWith("0x"));
    }
    std::string output_of(const std::string& command) { return commands_->output_of(command); }

    std::optional<Fixture> fixture_;
    std::optional<Commands> commands_;
    std::string newest_;
};

using Command_heap = HeldBlocks;
TEST_F(Command_heap, CountsByType) {
    EXPECT_THAT(output_of("heap by type"), HasSubstr("3  shop::Session"));
    EXPECT_THAT(output_of("heap by holder"), HasSubstr("shop::g_sessions"));
}

TEST_F(Command_heap, GoesIntoAPipeAsAllThatLooksAtTheHeap) {
    EXPECT_EQ(output_of("heap by type | grep -c shop::Session"), "1\n");
    EXPECT_EQ(output_of("leaks | grep -c 'CallStack.*:'"), "1\n");
    EXPECT_EQ(output_of("refs " + newest_ + " | grep -c shop::g_sessions"), "1\n");
    EXPECT_EQ(output_of("why " + newest_ + " | grep -c 'Without it'"), "1\n");
}

using Command_leaks = HeldBlocks;
TEST_F(Command_leaks, HasTheCallStack) {
    EXPECT_THAT(output_of("leaks"), HasSubstr("shop::lose_block"));
    EXPECT_THAT(output_of("stats"), HasSubstr("lost"));
}

using Command_refs = HeldBlocks;
TEST_F(Command_refs, SaysWhoPointsToIt) {
    EXPECT_THAT(output_of("refs " + newest_), HasSubstr("shop::g_sessions"));
}

using Command_why = HeldBlocks;
TEST_F(Command_why, SaysWhatKeepsIt) {
    EXPECT_THAT(output_of("why " + newest_), HasSubstr("shop::g_sessions"));
}

// The program ends while memleax is stopped, so that its end and the pause are dealt with at once.
TEST(Command_pause, OfAProgramThatEndsStartsItNoSecondTime) {
    const test::TemporaryFolder folder;
    const std::string starts = folder.file("starts");
    const std::string word = folder.file("word");
    ASSERT_EQ(mkfifo(word.c_str(), 0600), 0);
    Memleax memleax({"-i", "-q", "--", "/bin/sh", "-c",
                     fmt::format("echo started >> {}; read line < {}", starts, word)});
    memleax.wait_until_watching();
    const int fifo = open(word.c_str(), O_WRONLY | O_CLOEXEC); // it has come to read
    ASSERT_GE(fifo, 0);
    memleax.process().signal(SIGSTOP);
    ASSERT_EQ(write(fifo, "\n", 1), 1);
    close(fifo);
    memleax.process().send("pause");
    memleax.process().send("resume");
    memleax.process().signal(SIGCONT);
    memleax.process().close_input();
    const auto result = memleax.finish();
    EXPECT_EQ(WEXITSTATUS(result.status), 0) << result.errors;
    EXPECT_EQ(test::read_file(starts), "started\n");
}

// A run of pause and resume around frees and allocations that nobody sees.
TEST(Command_pause, LeavesTheTargetAsItWas) {
    Fixture fixture("expiring");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Commands commands_of(fixture.pid());
    fixture.ask("hold");
    EXPECT_THAT(commands_of.output_of("pause"), HasSubstr("All breakpoints are out."));
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_THAT(commands_of.output_of("status"), HasSubstr("not watched for now (paused)"));
    EXPECT_THAT(commands_of.error_of("pause"), HasSubstr("watching is paused; try 'resume'"));
    EXPECT_THAT(commands_of.output_of("dump all"), HasSubstr("live          1 block, 202 B"));
    EXPECT_EQ(WEXITSTATUS(commands_of.quit().status), 0); // from within the pause
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Command_resume, MakesNoFalseLeaks) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid(), {"-e", "1000", "-q", "-F", "json"});
    const auto say = [&](const std::string& line) { // with json, commands talk on stderr
        commands_of.memleax().process().send(line);
    };
    fixture.ask("hold");
    fixture.ask("leak");
    say("pause");
    ASSERT_TRUE(commands_of.memleax().process().find_error_line("All breakpoints are out."));
    fixture.ask("release"); // nobody sees that,
    fixture.ask("hold");    // nor this
    say("resume");
    ASSERT_TRUE(commands_of.memleax().process().find_error_line("is being watched again"));
    fixture.ask("release"); // of an unknown block
    fixture.ask("leak");
    say("resume");
    ASSERT_TRUE(commands_of.memleax().process().find_error_line("the target is being watched"));
    const auto json = commands_of.quit().json();
    EXPECT_EQ(live_leaks(json), (Leaks{{"slow_leak", {1, 101}}}));
    EXPECT_EQ(json.at("session").at("events").at("unknown_free"), 1);
    EXPECT_EQ(json.at("session").at("events").at("double_free"), 0);
    for (const auto& stack : json.at("callstacks")) { // neither leaked nor freed
        EXPECT_EQ(stack.at("free_blocks"), 0) << stack;
    }
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Command_resume, BeginsAnewWithMappedMemory) {
    Fixture fixture("mapped");
    Commands commands_of(fixture.pid(),
                         {"-e", "1000", "-q", "-F", "json", "--track", "heap,mmap,brk,shm"});
    const auto say = [&](const std::string& line) { commands_of.memleax().process().send(line); };
    fixture.go();
    say("pause");
    ASSERT_TRUE(commands_of.memleax().process().find_error_line("All breakpoints are out."));
    const FixtureAnswer unseen = fixture.go();
    say("resume");
    ASSERT_TRUE(commands_of.memleax().process().find_error_line("is being watched again"));
    FixtureAnswer answer = fixture.go();
    for (auto& [function, leak] : answer.truth) { // the last round's
        leak.blocks -= unseen.truth.at(function).blocks;
        leak.bytes -= unseen.truth.at(function).bytes;
    }
    const auto json = commands_of.quit().json();
    EXPECT_EQ(live_leaks(json), answer.truth);
    EXPECT_EQ(json.at("mapped").at("unexplained_bytes"), 0) << json.at("mapped");
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Command_threads, SaysWhatEachHasAllocated) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    fixture.ask("leak");
    EXPECT_THAT(
        commands_of.output_of("threads"),
        ContainsRegex(fmt::format("\n +{}  [SR] +expiring +1 block, 101 B\n$", fixture.pid())));
    commands_of.quit();
    Fixture many("threads16");
    Commands commands_of_many(many.pid());
    const std::string threads = commands_of_many.output_of("threads");
    EXPECT_EQ(std::count(threads.begin(), threads.end(), '\n'), 1 + 1 + 16) << threads;
    commands_of_many.quit();
}

TEST(Command_modules, SaysWhereSymbolsComeFrom) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    const std::string modules = commands_of.output_of("modules");
    EXPECT_THAT(modules, ContainsRegex("0x[0-9a-f]{16}-0x[0-9a-f]{16}  expiring  +[^ \n]"));
    EXPECT_THAT(modules, ContainsRegex("  libc.so.6  +[^ \n]"));
    commands_of.quit();
}

// As most programs of a distribution: it says so in few words, as they are in each line.
TEST(Command_modules, SaysOfAModuleWithoutDwarfThatThereAreNoLines) {
    test::TemporaryFolder folder;
    const std::string program = folder.file("stripped");
    ASSERT_EQ(ChildProcess({"strip", "-o", program, fixture_path("expiring")}).wait_for_end(), 0);
    ChildProcess process({program});
    EXPECT_EQ(process.read_line(), "ready");
    Commands commands_of(process.pid());
    EXPECT_THAT(commands_of.output_of("modules"),
                ContainsRegex("  stripped  +[0-9]+ symbols \\(\\.dynsym\\), no lines, unwinding"));
    commands_of.quit();
    process.close_input();
    process.wait_for_end();
}

TEST(Command_status, SaysHowMuchOfItsTimeTheTargetSpendsWithUs) {
    Fixture idle("expiring");
    Commands of_idle(idle.pid());
    // A thread that was borrowed to attach may just be going back to sleep.
    EXPECT_THAT(of_idle.output_of("status"),
                ContainsRegex("\nstopped     (no thread was seen that would have run|for memleax"
                              "[^\n]*looks?[^\n]*); [^\n]* the last 0.1 s"));
    of_idle.output_of("pause");
    EXPECT_THAT(of_idle.output_of("status"), Not(HasSubstr("the last 0.1 s")));
    of_idle.quit();

    ChildProcess busy({fixture_path("storm")});
    EXPECT_EQ(busy.read_line(), "ready");
    Commands of_busy(busy.pid());
    of_busy.output_of("wait 1s"); // of fewer than ten looks no share is told
    EXPECT_THAT(of_busy.output_of("status"),
                ContainsRegex("\nstopped     for memleax: [0-9.<>]+% of the time in which its "
                              "threads would have run \\([0-9]+ of [0-9]+ looks\\); "
                              "[0-9.<>]+% in the last 0.1 s"));
    // All over the session, also when nobody watches any more.
    of_busy.output_of("pause");
    EXPECT_THAT(of_busy.output_of("status"),
                ContainsRegex("\nstopped     for memleax: [0-9.<>]+% [^\n;]+ looks\\)"));
    EXPECT_THAT(of_busy.quit().output,
                ContainsRegex("\n== Stopped for memleax: [0-9.<>]+% [^\n]+\\.\n"));
    Commands as_json(busy.pid(), {"-e", "1000", "-q", "-F", "json"});
    const auto stops = as_json.quit().json().at("session").at("stops");
    EXPECT_GE(stops.at("looks"), 1);
    EXPECT_EQ(stops.at("share"),
              stops.at("stopped").get<double>() / stops.at("looks").get<double>());
    busy.close_input();
}

/// What `modules` says of a process's languages; it goes on until its input ends.
std::string modules_of(const std::vector<std::string>& command, int end_status) {
    ChildProcess process(command);
    EXPECT_EQ(process.read_line(), "ready");
    Commands commands_of(process.pid());
    const std::string modules = commands_of.output_of("modules");
    commands_of.quit();
    process.close_input();
    EXPECT_EQ(process.wait_for_end(), end_status);
    return modules;
}

TEST(Command_modules, SaysNothingOfOtherHeapsWhereThereAreNone) {
    EXPECT_THAT(modules_of({fixture_path("expiring")}, 0), Not(HasSubstr("not seen")));
}

TEST(Command_modules, SaysThatGosObjectsAreNotSeen) {
    if (!is_built("go_leaks")) {
        GTEST_SKIP() << "go_leaks could not be built here";
    }
    EXPECT_THAT(modules_of({fixture_path("go_leaks")}, 0),
                HasSubstr("\ngo_leaks: Go's own objects are in its runtime's heap, and not seen; "
                          "what C code allocates is\n"));
}

TEST(Command_modules, SaysThatPythonsObjectsAreNotSeen) {
    if (access("/usr/bin/python3", X_OK) != 0) {
        GTEST_SKIP() << "there is no /usr/bin/python3";
    }
    const std::string script = "import sys; print('ready', flush=True); sys.stdin.read()";
    EXPECT_THAT(modules_of({"/usr/bin/python3", "-c", script}, 0),
                ContainsRegex("\npython3[^\n]*: Python's objects of up to 512 bytes are in "
                              "its own arenas, and not seen, unless PYTHONMALLOC=malloc"));
}

TEST(Command_modules, SaysThatNodesObjectsAreNotSeen) {
    if (std::system("command -v node >/dev/null") != 0) {
        GTEST_SKIP() << "there is no node";
    }
    const std::string script =
        "process.stdin.on('end', () => process.exit(0)); process.stdin.resume();"
        "console.log('ready')";
    EXPECT_THAT(modules_of({"node", "-e", script}, 0),
                ContainsRegex("\n[^\n]*node[^\n]*: JavaScript's objects are in V8's own heap, "
                              "and not seen"));
}

TEST(Command_modules, SaysThatPhpsValuesAreNotSeen) {
    if (!has_program("php")) {
        GTEST_SKIP() << "there is no php";
    }
    const std::string script = "echo \"ready\\n\"; stream_get_contents(STDIN);";
    EXPECT_THAT(modules_of({"php", "-r", script}, 0),
                ContainsRegex("\nphp[^\n]*: PHP's values are in Zend's own heap, and not seen, "
                              "unless USE_ZEND_ALLOC=0"));
}

TEST(Command_modules, SaysThatRubysObjectsAreNotSeen) {
    if (!has_program("ruby")) {
        GTEST_SKIP() << "there is no ruby";
    }
    EXPECT_THAT(modules_of({"ruby", "-e", "puts 'ready'; STDOUT.flush; STDIN.read"}, 0),
                ContainsRegex("\nlibruby[^\n]*: Ruby's objects are in pages of its own, and not "
                              "seen"));
}

TEST(Command_modules, SaysWhatOfChromiumIsNotSeen) {
    EXPECT_THAT(modules_of({fixture_path("browser")}, 0),
                HasSubstr("\nbrowser: Chromium's page objects, strings and buffers are in heaps of "
                          "its own (V8, Oilpan, partitions of PartitionAlloc), and not seen; what "
                          "it allocates by malloc and new is\n"));
}

TEST(Command_modules, SaysThatJavasObjectsAreNotSeen) {
    if (!has_program("javac")) {
        GTEST_SKIP() << "there is no javac";
    }
    test::TemporaryFolder folder;
    test::write_file(folder.file("Ready.java"),
                     "public class Ready {\n"
                     "    public static void main(String[] words) throws Exception {\n"
                     "        System.out.println(\"ready\");\n"
                     "        System.in.read();\n"
                     "    }\n"
                     "}\n");
    EXPECT_THAT(modules_of({"java", folder.file("Ready.java")}, 0),
                HasSubstr("\nlibjvm.so: Java's objects are in the JVM's own heap, and not seen"));
}

TEST(Command_detach, LeavesTheDataForReading) {
    Fixture fixture("expiring");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Commands commands_of(fixture.pid());
    fixture.ask("leak");
    EXPECT_THAT(commands_of.output_of("detach"), HasSubstr("The target has been let go of."));
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    fixture.ask("leak"); // is not seen
    EXPECT_THAT(commands_of.output_of("dump all"), HasSubstr("live          1 block, 101 B"));
    EXPECT_THAT(commands_of.output_of("status"), HasSubstr("not watched any more"));
    for (const char* command : {"detach", "pause", "resume"}) {
        EXPECT_THAT(commands_of.error_of(command), HasSubstr("the target is not watched any more"))
            << command;
    }
    const auto result = commands_of.quit();
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.output, HasSubstr("ended by the user"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Command_faults, ListsTheMost) {
    Fixture fixture("page_toucher");
    Commands commands_of(fixture.pid(), {"--track", "faults"});
    fixture.go();
    const std::string one = commands_of.output_of("faults 1");
    EXPECT_THAT(one, HasSubstr("Page faults: 300 minor, 0 major: 300 anonymous\n"));
    EXPECT_THAT(one, Not(HasSubstr("200 heap")));
    EXPECT_THAT(commands_of.output_of("faults"), HasSubstr("200 heap"));
    EXPECT_THAT(commands_of.error_of("faults 0"), HasSubstr("'0' is not the number"));
    commands_of.quit();
}

TEST(Command_faults, ThoseOfAPauseAreNotSeen) {
    Fixture fixture("page_toucher");
    Commands commands_of(fixture.pid(), {"--track", "faults"});
    fixture.go();
    commands_of.run("pause");
    fixture.go();
    fixture.go();
    commands_of.run("resume");
    fixture.go();
    EXPECT_THAT(commands_of.output_of("faults 1"), HasSubstr("600 minor, 0 major: 600 anonymous"));
    commands_of.quit();
}

TEST(Command_faults, NeedsThemTracked) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    EXPECT_THAT(commands_of.error_of("faults"), HasSubstr("--track faults"));
    commands_of.quit();
}

} // namespace
} // namespace memleax::testing

// SPDX-License-Identifier: GPL-3.0-or-later
// One small program, built, stripped, packed and moved in every way that its names can be found by
// or lost: each row is watched, for counts, the frames of its leaks, and leaving.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "build_paths.hpp"
#include "elf_support.hpp"
#include "leaks_support.hpp"
#include "program_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

/// What can be known of a frame.
enum class Known {
    lines,
    functions,
    exported, ///< the functions that others can call; a part that was moved away has no name
    nothing
};

struct Case {
    const char* name;
    const char* build; ///< a shell script; $cc compiles $src, and leaves ./program
    Known known = Known::lines;
    const char* options = ""; ///< memleax's
    const char* once_up = ""; ///< another script, when it runs
    const char* run = "./program";
};
void PrintTo(const Case& test_case, std::ostream* out) {
    *out << test_case.name;
}

/// names.c, and where in it.
class Source {
  public:
    Source() {
        std::ifstream file(path());
        std::string line;
        for (unsigned number = 1; std::getline(file, line); ++number) {
            static const std::string kMark = "/* LINE ";
            if (const auto at = line.find(kMark); at != std::string::npos) {
                const auto begin = at + kMark.size();
                lines_[line.substr(begin, line.find(' ', begin) - begin)] = number;
            }
        }
    }
    static std::string path() { return std::string(MEMLEAX_SOURCE_DIR) + "/fixtures/names.c"; }
    [[nodiscard]] std::string at(const std::string& function, const std::string& mark) const {
        return fmt::format("{} names.c:{}", function, lines_.at(mark));
    }

  private:
    std::map<std::string, unsigned> lines_;
};

/// The program's own frames, innermost first, as far out as work().
Words frames_of(const nlohmann::json& stack) {
    Words frames;
    for (const auto& frame : stack.at("frames")) {
        const std::string module = frame.value("module", "");
        if (module.find("libc") != std::string::npos || frames.size() == 4 ||
            frame.value("function", "").ends_with("malloc")) { // "__malloc" in a static-pie program
            continue;
        }
        std::string text = frame.value("function", "");
        if (text.empty() && frame.contains("module_offset")) {
            text = "nameless";
        }
        if (frame.contains("file")) {
            text += fmt::format(
                " {}:{}", std::filesystem::path(std::string(frame.at("file"))).filename().string(),
                frame.value("line", 0));
        }
        frames.push_back(text + (frame.value("inlined", false) ? " [inlined]" : ""));
        if (text.starts_with("work")) {
            break;
        }
    }
    return frames;
}

/// What is exported of fixtures/names.c does not name its part that gcc 12 has moved away; it does
/// that on one of our CPUs only.
#ifdef __x86_64__
constexpr const char* kColdPart = "nameless";
#else
constexpr const char* kColdPart = "partly_cold";
#endif

class Names : public ::testing::TestWithParam<Case> {
  protected:
    memleax::test::TemporaryFolder folder;

    void SetUp() override {
        const Case& test_case = GetParam();
        const std::string scripts =
            fmt::format("{};{};{}", test_case.build, test_case.once_up, test_case.run);
        if (const std::string tool = missing_tool(scripts); !tool.empty()) {
            GTEST_SKIP() << tool << " is not installed";
        }
    }
    int shell(const std::string& script) const {
        const std::string line = fmt::format(
            "cd {} && cc='cc -O2 -g -fno-builtin -Wall -pthread' src={} && {{ set -e; {}\n}}",
            folder.file(""), Source::path(), script);
        return std::system(line.c_str());
    }
    [[nodiscard]] Words options() const {
        Words words{"-F", "json", "-e", "1000"};
        std::string text = GetParam().options;
        for (std::size_t at = 0; (at = text.find("DIR")) != std::string::npos;) {
            text.replace(at, 3, folder.file(""));
        }
        std::istringstream stream(text);
        for (std::string word; stream >> word;) {
            words.push_back(word);
        }
        return words;
    }
    static void expect_frames(const nlohmann::json& report) {
        record_compared("counts");
        record_compared("frames");
        const Source source;
        std::map<std::int64_t, Words> wanted;
        switch (GetParam().known) {
        case Known::lines:
            wanted = {{104,
                       {source.at("inlined", "inlined") + " [inlined]",
                        source.at("leaking", "leaking"), source.at("work", "plain")}},
                      {208,
                       {source.at("inlined", "inlined") + " [inlined]",
                        source.at("leaking", "leaking"), source.at("work", "tail")}},
                      {312, {source.at("partly_cold", "cold"), source.at("work", "calls-cold")}}};
            break;
        case Known::functions:
            wanted = {{104, {"leaking", "work"}},
                      {208, {"leaking", "work"}},
                      {312, {"partly_cold", "work"}}};
            break;
        case Known::exported:
            wanted = {
                {104, {"leaking", "work"}}, {208, {"leaking", "work"}}, {312, {kColdPart, "work"}}};
            break;
        case Known::nothing:
            for (const std::int64_t size : {104, 208, 312}) {
                wanted[size] = {"nameless", "nameless"};
            }
        }
        for (const auto& stack : report.at("callstacks")) {
            const std::int64_t blocks = stack.at("live_blocks");
            const std::int64_t size = stack.at("live_bytes").get<std::int64_t>() / blocks;
            EXPECT_EQ(blocks, 1) << stack;
            if (const auto known = wanted.find(size); known != wanted.end()) {
                Words frames = frames_of(stack);
                frames.resize(std::min(frames.size(), known->second.size()));
                EXPECT_THAT(frames, ElementsAreArray(known->second)) << stack.dump(1);
                wanted.erase(known);
            } else {
                EXPECT_EQ(size, 416);
            }
        }
        EXPECT_THAT(wanted, IsEmpty());
        EXPECT_EQ(report.at("callstacks").size(), 4U);
    }
};

TEST_P(Names, ExactCountsFramesAndACleanLeave) {
    ASSERT_EQ(shell(GetParam().build), 0);
    const std::string run = fmt::format("cd {} && exec {}", folder.file(""), GetParam().run);
    Fixture fixture(CommandLine{{"/bin/sh", "-c", run}});
    ASSERT_EQ(shell(GetParam().once_up), 0);
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Words words = options();
    words.push_back(std::to_string(fixture.pid()));
    Memleax memleax(words);
    memleax.wait_until_watching();
    fixture.go();
    const auto result = memleax.interrupt_and_finish();
    const TargetSnapshot after = take_snapshot(fixture.pid());
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(differences(before, after, Meanwhile::worked), IsEmpty());
    expect_frames(result.json());
    EXPECT_EQ(fixture.quit(), 0);
}

// What rows have in common.
#define BY_BUILD_ID                                                                                \
    "id=$(readelf -n program | sed -n 's/.*Build ID: //p'); rest=${id#??}; "                       \
    "folder=debug/.build-id/${id%\"$rest\"}; mkdir -p $folder; "                                   \
    "objcopy --only-keep-debug program $folder/$rest.debug; strip program; "

#define SEPARATE "objcopy --only-keep-debug program program.debug; strip program; "
#define LINKED                                                                                     \
    "objcopy --only-keep-debug program program.debug; "                                            \
    "objcopy --strip-all --add-gnu-debuglink=program.debug program; "

INSTANTIATE_TEST_SUITE_P(
    Kinds, Names,
    ::testing::Values(
        Case{"plain", "$cc $src -o program"}, Case{"dwarf_2", "$cc -gdwarf-2 $src -o program"},
        Case{"dwarf_3", "$cc -gdwarf-3 $src -o program"},
        Case{"dwarf_4", "$cc -gdwarf-4 $src -o program"},
        Case{"dwarf_5", "$cc -gdwarf-5 $src -o program"},
        Case{"clang", "clang-14 -O2 -g -fno-builtin -pthread $src -o program"},
        // Units in .debug_aranges and one that is not, as where compilers are mixed.
        Case{
            "some_in_aranges",
            "for i in before after; do echo \"int $i(int n) { return n * 3; }\" >$i.c; done; "
            "$cc -c before.c after.c $src; "
            "objcopy --remove-section .debug_aranges --remove-section .rela.debug_aranges names.o; "
            "$cc before.o names.o after.o -o program"},
        Case{"compressed", "$cc -gz=zlib $src -o program"},
        Case{"compressed_gnu", "$cc -gz=zlib-gnu $src -o program"},
        Case{"no_pie", "$cc -fno-pie -no-pie $src -o program"},
        Case{"static_program", "$cc -static $src -o program"},
        Case{"static_pie", "$cc -static-pie -fPIE $src -o program"},
        Case{"lto", "$cc -flto $src -o program"},
        Case{"function_sections", "$cc -ffunction-sections -Wl,--gc-sections $src -o program"},
        Case{"lld", "clang-14 -fuse-ld=lld -O2 -g -fno-builtin -pthread $src -o program"},
        Case{"thin_lto",
             "clang-14 -flto=thin -fuse-ld=lld -O2 -g -fno-builtin -pthread $src -o program"},
        // Code and read-only data in one segment; segments that are far apart.
        Case{"odd_segments", "clang-14 -fuse-ld=lld -Wl,--no-rosegment,-z,max-page-size=0x200000 "
                             "-O2 -g -fno-builtin -pthread $src -o program"},
        Case{"one_code_segment", "$cc -Wl,-z,noseparate-code $src -o program"},
        // As prelink(8) does: the file has addresses of its own, and is loaded elsewhere.
        Case{"prelinked", "$cc -pie -fPIE -Wl,-Ttext-segment=0x40000000 $src -o program"},
        Case{"gold", "$cc -fuse-ld=gold $src -o program"},
        Case{"no_build_id", "$cc -Wl,--build-id=none $src -o program"},
        Case{"ifunc", "$cc -DWITH_IFUNC $src -o program"},
        Case{"split", "$cc -gsplit-dwarf $src -o program"},
        Case{"split_dwarf_4", "$cc -gdwarf-4 -gsplit-dwarf $src -o program"},
        // binutils 2.40 has a dwp for DWARF 4 only.
        Case{"dwp_dwarf_4",
             "$cc -gdwarf-4 -gsplit-dwarf $src -o program; timeout 60 dwp -e program; rm *.dwo"},
        Case{"dwp_llvm", "clang-14 -O2 -g -fno-builtin -pthread -gsplit-dwarf -c $src; "
                         "clang-14 -pthread names.o -o program; timeout 60 llvm-dwp-14 -e program "
                         "-o program.dwp; "
                         "rm *.dwo"},
        Case{"dwz", "$cc $src -o program; dwz program"},
        Case{"dwz_common", "$cc $src -o program; cp program other; dwz -m common program other; "
                           "readelf -S program | grep -q gnu_debugaltlink"},
        Case{"debuglink", "$cc $src -o program; " LINKED},
        Case{"debuglink_by_checksum", "$cc -Wl,--build-id=none $src -o program; " LINKED},
        Case{"debuglink_to_another_build",
             "$cc $src -o program; " LINKED "$cc -O1 $src -o other; "
             "objcopy --only-keep-debug other program.debug",
             Known::nothing},
        Case{"debuglink_in_debug_folder",
             "$cc $src -o program; " LINKED "mkdir .debug; mv program.debug .debug"},
        Case{"debuglink_dwz",
             "$cc $src -o program; cp program other; dwz -m common program other; " LINKED},
        Case{"debug_info_option", "$cc $src -o program; " SEPARATE, Known::lines,
             "-d DIR/program.debug"},
        Case{"debug_info_option_dwz",
             "$cc $src -o program; cp program other; dwz -m common program other; " SEPARATE,
             Known::lines, "-d DIR/program.debug"},
        // The allocator's names are there, too.
        Case{"debuglink_static", "$cc -static $src -o program; " LINKED},
        Case{"debug_info_option_static", "$cc -static $src -o program; " SEPARATE, Known::lines,
             "-d DIR/program.debug"},
        Case{"debug_dir_by_build_id", "$cc $src -o program; " BY_BUILD_ID, Known::lines,
             "--debug-dir / --debug-dir DIR/debug"},
        Case{"debug_dir_flat", "$cc $src -o program; " LINKED "mkdir debug; mv program.debug debug",
             Known::lines, "--debug-dir DIR/debug"},
        Case{"exported_only", "$cc -rdynamic $src -o program; strip program", Known::exported},
        Case{"symbols_only", "$cc -g0 $src -o program", Known::functions},
        Case{"mini_debug_info",
             "$cc $src -o program; nm -D program --format=posix --defined-only | cut -d' ' -f1 | "
             "sort >dynamic; nm program --format=posix --defined-only | grep ' [Tt] ' | "
             "cut -d' ' -f1 | sort >functions; comm -13 dynamic functions >kept; "
             "objcopy --only-keep-debug program debug; "
             "objcopy -S --remove-section .comment --keep-symbols=kept debug mini; "
             "strip --strip-all program; xz mini; "
             "objcopy --add-section .gnu_debugdata=mini.xz program",
             Known::functions},
        Case{"stripped", "$cc $src -o program; strip program", Known::nothing},
        Case{"deleted", "$cc $src -o program", Known::lines, "", "rm program"},
        Case{"replaced", "$cc $src -o program", Known::lines, "",
             "$cc -O1 -DPADDING $src -o other; mv other program"},
        Case{"memfd", "$cc $src -o program", Known::lines, "", "",
             "python3 -c 'import os; fd = os.memfd_create(\"program\"); "
             "os.write(fd, open(\"program\", \"rb\").read()); "
             "os.execve(fd, [\"program\"], os.environ)'"}),
    [](const auto& instance) { return instance.param.name; });

/// A library that was replaced since, watched by a user who has this capability alone, or none
/// ("").
class ReplacedLibrary : public ::testing::TestWithParam<std::string> {};

TEST_P(ReplacedLibrary, IsReadWithTheRightCapability) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "giving away capabilities needs root";
    }
    const memleax::test::TemporaryFolder folder;
    const auto shell = [&folder](const std::string& script) {
        return std::system(
            fmt::format("cd {} && set -e; cc='cc -g -fno-builtin -pthread'; src={}; {}",
                        folder.file(""), Source::path(), script)
                .c_str());
    };
    ASSERT_EQ(
        shell("chmod 755 .; $cc -O2 -shared -fPIC -Dmain=work_in_library $src -o libwork.so; "
              "echo 'int work_in_library(void); int main(void) { return work_in_library(); }' "
              ">main.c; $cc main.c -L. -lwork -Wl,-rpath,$PWD -o program"),
        0);
    Fixture fixture(unprivileged({{folder.file("program")}}));
    ASSERT_EQ(shell("$cc -O1 -shared -fPIC -DPADDING -Dmain=work_in_library $src -o other; "
                    "mv other libwork.so"),
              0);
    const std::string capabilities =
        GetParam().empty() ? "-all" : fmt::format("-all,+{}", GetParam());
    Memleax memleax(
        CommandLine{{"/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                     "--inh-caps", capabilities, "--ambient-caps", capabilities, MEMLEAX_PROGRAM,
                     "-F", "json", "-e", "1000", std::to_string(fixture.pid())}});
    memleax.wait_until_watching();
    fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const auto report = result.json();
    std::map<std::string, int> named;
    for (const auto& stack : report.at("callstacks")) {
        for (const auto& frame : stack.at("frames")) {
            if (frame.value("module", "") == "libwork.so") {
                ++named[frame.value("function", "")];
            }
        }
    }
    EXPECT_EQ(named.contains("leaking"), !GetParam().empty());
    EXPECT_EQ(named.contains(""), GetParam().empty());
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Capabilities, ReplacedLibrary,
                         ::testing::Values("", "checkpoint_restore", "sys_admin"),
                         [](const auto& instance) {
                             return instance.param.empty() ? "none" : instance.param;
                         });

} // namespace
} // namespace memleax::testing

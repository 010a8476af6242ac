// SPDX-License-Identifier: GPL-3.0-or-later
// Needs its own line table: built with -g.
#include "memleax/symbols/symbolizer.hpp"

#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "elf_support.hpp"

namespace {

/// The address behind this call, as on a stack. Each caller looks at it with `keep`, so that no
/// call becomes a jump.
__attribute__((noinline)) void* call_here() {
    void* pc = __builtin_return_address(0);
    asm volatile("" : "+r"(pc));
    return pc;
}

struct Lines {
    unsigned innermost = 0;
    unsigned middle = 0;
    unsigned outer = 0;
};
Lines lines;

} // namespace

#define KEEP(pc) asm volatile("" : "+r"(pc))

namespace subject {

__attribute__((always_inline)) inline void* innermost(int) {
    lines.innermost = __LINE__ + 1;
    void* pc = call_here();
    KEEP(pc);
    return pc;
}

struct Middle {
    __attribute__((always_inline)) void* call() {
        lines.middle = __LINE__ + 1;
        void* pc = innermost(1);
        KEEP(pc);
        return pc;
    }
};

__attribute__((noinline)) void* outer(Middle* middle) {
    lines.outer = __LINE__ + 1;
    void* pc = middle->call();
    KEEP(pc);
    return pc;
}

namespace {
__attribute__((always_inline)) inline void* internal_inlined() {
    void* pc = call_here();
    KEEP(pc);
    return pc;
}
__attribute__((noinline)) void* internal() {
    void* pc = internal_inlined();
    KEEP(pc);
    return pc;
}
} // namespace

template <class T> __attribute__((noinline)) void* of_type(T value) {
    asm volatile("" : : "g"(value)); // or else it is a clone without parameters
    void* pc = call_here();
    KEEP(pc);
    return pc;
}

} // namespace subject

extern "C" __attribute__((noinline, used)) void* plain_c_function() {
    void* pc = call_here();
    KEEP(pc);
    return pc;
}

namespace memleax {
namespace {

FrameAddress on_stack(const void* pc) {
    return FrameAddress::return_address(CodeAddr(reinterpret_cast<std::uint64_t>(pc)));
}

FrameAddress exact(const void* pc) {
    return FrameAddress::exact(CodeAddr(reinterpret_cast<std::uint64_t>(pc)));
}

template <class Function> const void* pointer(Function* function) {
    return reinterpret_cast<const void*>(function);
}

/// Copies, as the symbolizer's thread gets them.
void give_modules(const ModuleMap& map, Symbolizer* symbolizer) {
    std::vector<std::shared_ptr<const Module>> modules;
    const Module* main = nullptr;
    for (const auto& module : map.all()) {
        modules.push_back(std::make_shared<const Module>(*module));
        main = module.get() == map.main() ? modules.back().get() : main;
    }
    symbolizer->set_modules(std::move(modules), main);
}

class Symbols : public testing::Test {
  protected:
    test::OwnMemory memory;
    ModuleMap map{test::own_pid(), memory};
    Symbolizer symbolizer{Symbolizer::Options{}};

    void SetUp() override { refresh(); }
    void refresh() {
        const auto changes = map.refresh();
        ASSERT_TRUE(changes) << changes.error().message();
        give_modules(map, &symbolizer);
    }
    const std::vector<SourceFrame>& resolve(FrameAddress frame) {
        return *symbolizer.resolve(frame, map.generation()); // the symbolizer keeps it
    }
};

/// Compares all there is with what is known to be true.
void expect_frame(const SourceFrame& frame, const std::string& function, unsigned line,
                  bool inlined) {
    EXPECT_EQ(frame.function, function);
    EXPECT_EQ(std::filesystem::path(frame.file).filename(), "symbolizer_test.cpp");
    EXPECT_EQ(frame.line, line) << function;
    EXPECT_EQ(frame.inlined, inlined) << function;
    EXPECT_EQ(frame.offset.has_value(), !inlined) << function;
    EXPECT_EQ(frame.module, "symbolizer_test");
}

void expect_inlined_calls(const std::vector<SourceFrame>& frames, const void* pc) {
    ASSERT_EQ(frames.size(), 3U);
    expect_frame(frames[0], "subject::innermost(int)", lines.innermost, true);
    expect_frame(frames[1], "subject::Middle::call()", lines.middle, true);
    expect_frame(frames[2], "subject::outer(subject::Middle*)", lines.outer, false);
    EXPECT_EQ(frames[2].offset,
              static_cast<const char*>(pc) - static_cast<const char*>(pointer(&subject::outer)));
    for (const SourceFrame& frame : frames) {
        EXPECT_EQ(frame.pc, on_stack(pc).pc());
    }
}

TEST_F(Symbols, InlinedCalls) {
    subject::Middle middle;
    const void* pc = subject::outer(&middle);
    expect_inlined_calls(resolve(on_stack(pc)), pc);
    EXPECT_EQ(resolve(on_stack(pc)).front().address(), on_stack(pc));
}

TEST_F(Symbols, InternalLinkage) {
    const auto& frames = resolve(on_stack(subject::internal()));
    ASSERT_EQ(frames.size(), 2U);
    // Of an inlined function DWARF has only the name.
    EXPECT_EQ(frames[0].function.substr(0, frames[0].function.find("internal_inlined")),
              "subject::(anonymous namespace)::");
    EXPECT_EQ(frames[1].function, "subject::(anonymous namespace)::internal()");
}

TEST_F(Symbols, Templates) {
    EXPECT_EQ(resolve(on_stack(subject::of_type(1L))).back().function,
              "subject::of_type<long>(long)");
}

TEST_F(Symbols, C) {
    const auto& frames = resolve(on_stack(plain_c_function()));
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(frames[0].function, "plain_c_function");
}

TEST_F(Symbols, FirstInstruction) {
    const auto& frame = resolve(exact(pointer(&plain_c_function))).back();
    EXPECT_EQ(frame.address(), exact(pointer(&plain_c_function)));
    EXPECT_EQ(frame.function, "plain_c_function");
    EXPECT_EQ(frame.offset, 0U);
    // The same address, as one that is returned to, belongs to the instruction before.
    EXPECT_NE(resolve(on_stack(pointer(&plain_c_function))).back().function, "plain_c_function");
}

TEST_F(Symbols, ResultsStayInPlace) {
    const auto* first = &resolve(exact(pointer(&plain_c_function)));
    for (int i = 1; i < 2000; ++i) {
        resolve(exact(static_cast<const char*>(pointer(&plain_c_function)) + i));
    }
    refresh(); // other snapshots of the same modules
    EXPECT_EQ(&resolve(exact(pointer(&plain_c_function))), first);
}

TEST_F(Symbols, NamesThatPeopleKnow) {
    void* libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    ASSERT_NE(libc, nullptr);
    // Some of these have several names at their address, as __libc_malloc.
    for (const char* name : {"malloc", "calloc", "realloc", "free", "memalign", "posix_memalign",
                             "valloc", "puts", "write", "fopen", "qsort"}) {
        const auto& frame = resolve(exact(dlsym(libc, name))).back();
        EXPECT_EQ(frame.function, name);
        EXPECT_EQ(frame.offset, 0U) << name;
        EXPECT_EQ(frame.module, "libc.so.6");
    }
    dlclose(libc);
}

TEST_F(Symbols, Vdso) {
    for (const auto& module : map.all()) {
        if (module->path != "[vdso]") {
            continue;
        }
        ElfAddr start;
        module->image->for_each_function(SymbolTable::dynamic, [&](const ElfSymbol& symbol) {
            start = symbol.name.ends_with("clock_gettime") ? symbol.address : start;
        });
        ASSERT_NE(start, ElfAddr());
        const auto& frame = resolve(FrameAddress::exact(module->to_runtime(start))).back();
        EXPECT_EQ(frame.module, "[vdso]");
        EXPECT_THAT(frame.function,
                    ::testing::AnyOf("clock_gettime", "__kernel_clock_gettime")); // vdso(7)
        return;
    }
    GTEST_SKIP() << "this kernel has none";
}

TEST_F(Symbols, InNoModule) {
    const auto& frames = resolve(FrameAddress::exact(CodeAddr(0x10)));
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(frames[0].pc, CodeAddr(0x10));
    EXPECT_EQ(frames[0].module, "");
    EXPECT_EQ(frames[0].function, "");
    EXPECT_FALSE(frames[0].offset);
}

TEST_F(Symbols, ModuleWithoutAFile) {
    auto module = std::make_shared<Module>();
    module->name = "libgone.so";
    module->executable = {{0x1000, 0x2000}};
    symbolizer.set_modules({module}, nullptr);
    const auto& frames = resolve(FrameAddress::exact(CodeAddr(0x1800)));
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(frames[0].module, "libgone.so");
    EXPECT_EQ(frames[0].function, "");
}

TEST_F(Symbols, OutliveTheirLibrary) {
    const test::TemporaryFolder folder;
    const std::string path = folder.file("libgoes.so");
    test::copy_file(test::library_path("libz.so.1"), path);
    test::LoadedLibrary library(path);
    const FrameAddress frame = FrameAddress::exact(library.function("zlibVersion"));
    const Generation before = map.generation();
    refresh();
    const Generation loaded = map.generation();
    library.close();
    std::filesystem::remove(path);
    refresh();
    const Generation gone = map.generation();
    ASSERT_LT(loaded, gone);
    EXPECT_EQ(symbolizer.resolve(frame, loaded)->back().function, "zlibVersion");
    EXPECT_EQ(symbolizer.resolve(frame, loaded)->back().module, "libgoes.so");
    EXPECT_EQ(symbolizer.resolve(frame, gone)->back().module, "");
    // A stack from between the loading and our seeing it.
    EXPECT_EQ(symbolizer.resolve(frame, before)->back().function, "zlibVersion");
}

/// Debug information in files of its own, made with objcopy of this very program.
class DebugFiles : public Symbols {
  protected:
    test::TemporaryFolder folder;
    std::string stripped = folder.file("stripped");
    std::string debug = folder.file("symbolizer_test.debug");
    const void* pc = nullptr;

    void SetUp() override {
        Symbols::SetUp();
        subject::Middle middle;
        pc = subject::outer(&middle);
        run("objcopy --only-keep-debug /proc/{0}/exe {1}", getpid(), debug);
        run("objcopy --strip-all --add-gnu-debuglink={1} /proc/{0}/exe {2}", getpid(), debug,
            stripped);
    }
    template <class... Args> static void run(fmt::format_string<Args...> format, Args&&... args) {
        const std::string command = fmt::format(format, std::forward<Args>(args)...);
        ASSERT_EQ(std::system(command.c_str()), 0) << command;
    }
    /// Of the program, had it been started from this file.
    std::vector<SourceFrame> resolve_as(const std::string& path, const std::string& debug_file) {
        const auto image = ElfImage::open(path);
        EXPECT_TRUE(image) << image.error().message();
        auto module = std::make_shared<Module>(*map.main());
        module->path = path;
        module->image = *image;
        Symbolizer own(Symbolizer::Options{debug_file});
        own.set_modules({module}, module.get());
        return *own.resolve(on_stack(pc), map.generation());
    }
};

TEST_F(DebugFiles, ByDebugLink) {
    expect_inlined_calls(resolve_as(stripped, ""), pc);
}

TEST_F(DebugFiles, NamedByTheUser) {
    const std::string elsewhere = folder.file("other-name");
    std::filesystem::rename(debug, elsewhere);
    const auto without = resolve_as(stripped, "");
    ASSERT_EQ(without.size(), 1U);
    EXPECT_EQ(without[0].line, 0U);
    EXPECT_EQ(without[0].module, "symbolizer_test");
    expect_inlined_calls(resolve_as(stripped, elsewhere), pc);
}

TEST_F(DebugFiles, NamedByTheUserGoesBeforeItsOwn) {
    // Without lines: so it is seen which one was used.
    const std::string names_only = folder.file("names-only");
    run("objcopy --strip-debug {} {}", debug, names_only);
    const std::string own = std::filesystem::canonical("/proc/self/exe").string();
    ASSERT_EQ(resolve_as(own, "").size(), 3U);
    EXPECT_EQ(resolve_as(own, names_only).size(), 1U);
    EXPECT_EQ(resolve_as(own, names_only)[0].function, "subject::outer(subject::Middle*)");
    expect_inlined_calls(resolve_as(own, debug), pc);
}

TEST_F(DebugFiles, ThatCannotBeUsedChangesNothing) {
    test::write_file(folder.file("text"), "not debug information");
    const std::string own = std::filesystem::canonical("/proc/self/exe").string();
    expect_inlined_calls(resolve_as(own, folder.file("text")), pc);
    expect_inlined_calls(resolve_as(own, folder.file("missing")), pc);
}

TEST_F(DebugFiles, CheckedBeforehand) {
    test::write_file(folder.file("text"), "not debug information");
    EXPECT_TRUE(Symbolizer::check_debug_file(debug));
    EXPECT_TRUE(Symbolizer::check_debug_file("/proc/self/exe"));
    const auto none = Symbolizer::check_debug_file(stripped);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().message().find(stripped + ": has no debug information"), 0U);
    const auto text = Symbolizer::check_debug_file(folder.file("text"));
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().message(), folder.file("text") + ": not an ELF file");
    const auto missing = Symbolizer::check_debug_file(folder.file("missing"));
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().errnum(), ENOENT);
}

} // namespace
} // namespace memleax

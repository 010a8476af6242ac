// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/modules.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elf_support.hpp"

namespace memleax {
namespace {

using test::LoadedLibrary;

CodeAddr address_of(const void* function) {
    return CodeAddr(reinterpret_cast<std::uint64_t>(function));
}

class Modules : public testing::Test {
  protected:
    test::TemporaryFolder folder;
    test::OwnMemory memory;
    ModuleMap map{test::own_pid(), memory};

    ModuleChanges refresh() {
        auto changes = map.refresh();
        EXPECT_TRUE(changes) << changes.error().message();
        return changes ? *std::move(changes) : ModuleChanges{};
    }
    /// A library that nobody else has loaded.
    std::string make_library(const std::string& name) {
        test::copy_file(test::library_path("libz.so.1"), folder.file(name));
        return folder.file(name);
    }
};

TEST_F(Modules, BeforeTheFirstRefresh) {
    EXPECT_EQ(map.generation(), 0U);
    EXPECT_EQ(map.main(), nullptr);
    EXPECT_EQ(map.find(address_of(reinterpret_cast<void*>(&address_of))), nullptr);
    EXPECT_TRUE(map.all().empty());
}

TEST_F(Modules, EverythingThatTheDynamicLinkerKnows) {
    const ModuleChanges changes = refresh();
    EXPECT_EQ(map.generation(), 1U);
    EXPECT_EQ(changes.added.size(), map.all().size());
    EXPECT_TRUE(changes.removed.empty());
    const auto check = [](dl_phdr_info* info, std::size_t, void* data) {
        const auto& modules = *static_cast<ModuleMap*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
            const ElfW(Phdr)& segment = info->dlpi_phdr[i];
            if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) {
                continue;
            }
            const CodeAddr code(info->dlpi_addr + segment.p_vaddr);
            const Module* module = modules.find(code);
            if (module == nullptr) {
                ADD_FAILURE() << "no module for " << info->dlpi_name;
                continue;
            }
            EXPECT_EQ(module->load_bias, info->dlpi_addr) << module->path;
            EXPECT_NE(module->image, nullptr) << module->problem;
            EXPECT_EQ(module->loaded, 1U);
            EXPECT_FALSE(module->unloaded);
            EXPECT_EQ(module->to_elf(code), ElfAddr(segment.p_vaddr));
            EXPECT_TRUE(modules.is_executable(code));
        }
        return 0;
    };
    dl_iterate_phdr(check, &map);
}

TEST_F(Modules, Main) {
    refresh();
    ASSERT_NE(map.main(), nullptr);
    EXPECT_EQ(map.main()->path, std::filesystem::read_symlink("/proc/self/exe").string());
    EXPECT_EQ(map.main()->name, std::filesystem::path(map.main()->path).filename().string());
    EXPECT_EQ(map.find(address_of(reinterpret_cast<void*>(&address_of))), map.main());
    // .bss is in its range, too.
    static char zeros[1 << 20];
    EXPECT_TRUE(map.main()->range.contains(reinterpret_cast<std::uint64_t>(&zeros[1 << 19])));
    EXPECT_FALSE(map.is_executable(address_of(zeros)));
    EXPECT_EQ(map.find(CodeAddr(0)), nullptr);
    EXPECT_EQ(map.find(CodeAddr(UINT64_MAX)), nullptr);
}

TEST_F(Modules, Vdso) {
    refresh();
    const auto& all = map.all();
    const auto vdso = std::find_if(all.begin(), all.end(),
                                   [](const auto& module) { return module->name == "[vdso]"; });
    if (vdso == all.end()) {
        GTEST_SKIP() << "this kernel has none";
    }
    ASSERT_NE((*vdso)->image, nullptr) << (*vdso)->problem;
    int functions = 0;
    (*vdso)->image->for_each_function(SymbolTable::dynamic, [&](const ElfSymbol& symbol) {
        ++functions;
        EXPECT_EQ(map.find((*vdso)->to_runtime(symbol.address)), vdso->get()) << symbol.name;
    });
    EXPECT_GT(functions, 0);
}

TEST_F(Modules, RefreshKeepsWhatHasNotChanged) {
    refresh();
    const auto before = map.all();
    const ModuleChanges changes = refresh();
    EXPECT_TRUE(changes.added.empty() && changes.removed.empty());
    EXPECT_EQ(map.generation(), 1U);
    EXPECT_EQ(map.all(), before);
}

TEST_F(Modules, LibrariesComeAndGo) {
    refresh();
    const std::string path = make_library("libcome.so");
    LoadedLibrary library(path);
    const CodeAddr function = library.function("zlibVersion");

    ModuleChanges changes = refresh();
    ASSERT_EQ(changes.added.size(), 1U);
    const auto module = changes.added[0];
    EXPECT_EQ(module->path, path);
    EXPECT_EQ(module->name, "libcome.so");
    EXPECT_EQ(module->load_bias, library.load_bias());
    EXPECT_EQ(module->loaded, 2U);
    EXPECT_EQ(map.generation(), 2U);
    EXPECT_EQ(map.find(function), module.get());
    EXPECT_TRUE(module->range.contains(function));

    library.close();
    changes = refresh();
    EXPECT_THAT(changes.removed, testing::ElementsAre(module));
    EXPECT_TRUE(changes.added.empty());
    EXPECT_EQ(module->unloaded, 3U);
    EXPECT_NE(map.find(function), module.get());
    EXPECT_EQ(map.all().back(), module);

    const LoadedLibrary again(path);
    changes = refresh();
    ASSERT_EQ(changes.added.size(), 1U);
    EXPECT_NE(changes.added[0], module);
    EXPECT_EQ(changes.added[0]->image, module->image) << "opened twice";
    EXPECT_EQ(changes.added[0]->loaded, 4U);
}

TEST_F(Modules, OneLibraryTwice) {
    refresh();
    const std::string path = make_library("libtwo.so");
    const LoadedLibrary first(path);
    void* second = dlmopen(LM_ID_NEWLM, path.c_str(), RTLD_NOW);
    if (second == nullptr) { // ASan's runtime cannot be loaded twice
        GTEST_SKIP() << dlerror();
    }
    const auto changes = refresh();
    std::vector<std::uint64_t> biases;
    for (const auto& module : changes.added) {
        if (module->path == path) {
            biases.push_back(module->load_bias);
        }
    }
    link_map* of_second = nullptr;
    ASSERT_EQ(dlinfo(second, RTLD_DI_LINKMAP, &of_second), 0);
    EXPECT_THAT(biases, testing::UnorderedElementsAre(first.load_bias(), of_second->l_addr));
    const CodeAddr function = address_of(dlsym(second, "zlibVersion"));
    EXPECT_EQ(map.find(function)->load_bias, of_second->l_addr);
    dlclose(second);
}

TEST_F(Modules, AFileMappedAsDataIsNoModule) {
    const std::string path = make_library("libdata.so");
    refresh();
    const auto image = ElfImage::open(path);
    ASSERT_TRUE(image);
    const auto size = std::filesystem::file_size(path);
    void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, (*image)->descriptor(), 0);
    ASSERT_NE(data, MAP_FAILED);
    EXPECT_TRUE(refresh().added.empty());
    const LoadedLibrary library(path); // likely just below
    const auto changes = refresh();
    ASSERT_EQ(changes.added.size(), 1U);
    EXPECT_EQ(changes.added[0]->load_bias, library.load_bias());
    EXPECT_EQ(changes.added[0]->range.contains(reinterpret_cast<std::uint64_t>(data)), false);
    munmap(data, size);
}

// As the kernel does with a program that is linked statically, and the vDSO.
TEST_F(Modules, SomebodyElseBetweenItsSegments) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const auto image = ElfImage::open(make_library("libgap.so"));
    ASSERT_TRUE(image);
    if (page == 0x10000) { // as arm64's segments are aligned
        GTEST_SKIP() << "with pages of 64 KiB a library's segments touch each other";
    }
    const auto other = ElfImage::open(make_library("libother.so"));
    ASSERT_TRUE(other);
    const ElfSegment* code = nullptr;
    const ElfSegment* data = nullptr;
    for (const ElfSegment& segment : (*image)->segments()) {
        (segment.executable ? code : data) = &segment; // data comes last
    }
    ASSERT_TRUE(code != nullptr && data != nullptr);
    constexpr std::size_t kRoom = 1 << 20;
    auto* const room = static_cast<std::byte*>(
        mmap(nullptr, kRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(room, MAP_FAILED);
    // Returns where it ends.
    const auto map_segment = [&](const ElfSegment& segment, int rights) {
        const std::uint64_t into = segment.address.value() % page;
        const std::uint64_t bytes = (into + segment.file_size + page - 1) / page * page;
        std::byte* const at = room + (segment.address.value() - into);
        EXPECT_EQ(mmap(at, bytes, rights, MAP_PRIVATE | MAP_FIXED, (*image)->descriptor(),
                       static_cast<off_t>(segment.offset.value() - into)),
                  at);
        return at + bytes;
    };
    std::byte* const gap = map_segment(*code, PROT_READ | PROT_EXEC);
    map_segment(*data, PROT_READ | PROT_WRITE);
    std::byte* const own_data = room + data->address.value();
    ASSERT_LE(gap + page, own_data);
    ASSERT_EQ(mmap(gap, page, PROT_READ, MAP_PRIVATE | MAP_FIXED, (*other)->descriptor(), 0), gap);
    refresh();
    const Module* module = map.find(address_of(room + code->address.value()));
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(module->name, "libgap.so");
    EXPECT_EQ(module->load_bias, reinterpret_cast<std::uint64_t>(room));
    EXPECT_TRUE(module->range.contains(reinterpret_cast<std::uint64_t>(own_data)));
    munmap(room, kRoom);
}

TEST_F(Modules, SplitByMprotect) {
    const LoadedLibrary library(make_library("libsplit.so"));
    refresh();
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t code = library.function("inflate").value() / page * page;
    // As a program does that changes its own code.
    ASSERT_EQ(mprotect(reinterpret_cast<void*>(code), page, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
    const auto changes = refresh();
    EXPECT_TRUE(changes.added.empty() && changes.removed.empty());
    EXPECT_EQ(map.find(CodeAddr(code))->name, "libsplit.so");
    EXPECT_EQ(map.find(CodeAddr(code + page))->name, "libsplit.so");
}

TEST_F(Modules, AnonymousCode) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* code = mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(code, MAP_FAILED);
    refresh();
    EXPECT_TRUE(map.is_executable(address_of(code)));
    EXPECT_EQ(map.find(address_of(code)), nullptr);
    EXPECT_EQ(map.generation(), 1U);
    munmap(code, page);
    refresh();
    EXPECT_FALSE(map.is_executable(address_of(code)));
    EXPECT_EQ(map.generation(), 1U); // no module came or went
}

TEST_F(Modules, CodeInAFileThatIsNoElf) {
    test::write_file(folder.file("code.bin"), std::string(5000, '\xcc'));
    const int fd = open(folder.file("code.bin").c_str(), O_RDONLY);
    void* code = mmap(nullptr, 5000, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close(fd);
    ASSERT_NE(code, MAP_FAILED);
    refresh();
    const Module* module = map.find(address_of(code));
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(module->image, nullptr);
    EXPECT_EQ(module->problem, "code.bin: not an ELF file");
    EXPECT_EQ(module->range.begin, reinterpret_cast<std::uint64_t>(code));
    munmap(code, 5000);
}

TEST_F(Modules, RenamedFileIsTheSameModule) {
    const std::string path = make_library("libold.so");
    const LoadedLibrary library(path);
    refresh();
    std::filesystem::rename(path, folder.file("libnew.so"));
    const auto changes = refresh();
    EXPECT_TRUE(changes.added.empty() && changes.removed.empty());
}

TEST_F(Modules, NoSuchProcess) {
    ModuleMap nobody(Tid(0x7fffffff), memory);
    EXPECT_FALSE(nobody.refresh());
}

TEST_F(Modules, AProcessWithoutMemory) {
    const pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    ModuleMap zombie(Tid(child), memory);
    const auto changes = zombie.refresh();
    EXPECT_FALSE(changes);
    EXPECT_TRUE(zombie.all().empty());
    waitpid(child, nullptr, 0);
}

/// What a process that may not follow /proc/PID/map_files sees of the library that holds this pc:
/// the problem, or the build-id.
std::string without_privileges(CodeAddr pc) {
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) {
        return "no pipe";
    }
    const pid_t child = fork();
    if (child == 0) {
        const uid_t nobody = 65534;
        std::string text = "cannot drop privileges";
        if (geteuid() != 0 || (setgid(nobody) == 0 && setuid(nobody) == 0)) {
            prctl(PR_SET_DUMPABLE, 1); // or else /proc/PID belongs to root
            test::OwnMemory memory;
            ModuleMap map(test::own_pid(), memory);
            const auto changes = map.refresh();
            const Module* module = map.find(pc);
            text = !changes            ? changes.error().message()
                   : module == nullptr ? "no module"
                   : module->image     ? module->image->build_id()
                                       : module->problem;
            text += map.main() == nullptr || map.main()->image == nullptr ? ", and no program" : "";
        }
        const auto put = write(pipe_ends[1], text.data(), text.size());
        _exit(put == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    close(pipe_ends[1]);
    std::string text(4096, '\0');
    const ssize_t got = read(pipe_ends[0], text.data(), text.size());
    close(pipe_ends[0]);
    waitpid(child, nullptr, 0);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
}

class FileOnDisk : public Modules {
  protected:
    std::string path = make_library("libdisk.so");
    LoadedLibrary library{path};
    CodeAddr pc = library.function("zlibVersion");
    std::string build_id = (*ElfImage::open(path))->build_id();

    /// With the privilege to follow map_files it is the file that is mapped, always.
    void expect_found_by_map_files() {
        if (geteuid() != 0) {
            return;
        }
        refresh();
        const Module* module = map.find(pc);
        ASSERT_NE(module, nullptr);
        ASSERT_NE(module->image, nullptr) << module->problem;
        EXPECT_EQ(module->image->build_id(), build_id);
        EXPECT_EQ(module->load_bias, library.load_bias());
        EXPECT_EQ(module->path, path);
    }
};

// A file that was opened for one child is open for the next one, whoever their parent is.
TEST_F(Modules, RelativesOpenAFileOnce) {
    refresh();
    const LoadedLibrary library(make_library("librelative.so"));
    const CodeAddr pc = library.function("zlibVersion");
    ModuleMap first(test::own_pid(), memory, &map);
    ASSERT_TRUE(first.refresh());
    ModuleMap second(test::own_pid(), memory, &map);
    ASSERT_TRUE(second.refresh());
    ModuleMap stranger(test::own_pid(), memory);
    ASSERT_TRUE(stranger.refresh());
    ASSERT_NE(first.find(pc), nullptr);
    EXPECT_EQ(first.find(pc)->image, second.find(pc)->image);
    EXPECT_NE(first.find(pc)->image, stranger.find(pc)->image);
    const auto vdso_of = [](const ModuleMap& of) {
        const auto found = std::find_if(of.all().begin(), of.all().end(), [](const auto& module) {
            return module->name == "[vdso]";
        });
        return found != of.all().end() ? (*found)->image : nullptr;
    };
    EXPECT_EQ(vdso_of(map), vdso_of(first));
    EXPECT_EQ(vdso_of(map), vdso_of(second));
}

TEST_F(FileOnDisk, Untouched) {
    expect_found_by_map_files();
    EXPECT_EQ(without_privileges(pc), build_id);
}

TEST_F(FileOnDisk, ReplacedByAnother) {
    test::copy_file(test::library_path("libc.so.6"), folder.file("new"));
    std::filesystem::rename(folder.file("new"), path);
    expect_found_by_map_files();
    EXPECT_EQ(without_privileges(pc),
              "libdisk.so: the file was replaced on disk since the process started");
}

TEST_F(FileOnDisk, Deleted) {
    std::filesystem::remove(path);
    expect_found_by_map_files();
    EXPECT_EQ(without_privileges(pc),
              "libdisk.so: the file was deleted on disk since the process loaded it");
}

} // namespace
} // namespace memleax

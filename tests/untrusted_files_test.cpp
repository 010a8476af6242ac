// SPDX-License-Identifier: GPL-3.0-or-later
// Paths that others choose lead to FIFOs, devices and files that are no ELF: nothing waits for
// them, nothing is read from them. Where a test here fails it mostly hangs, until its time is up.
#include "memleax/base/regular_file.hpp"

#include <cstdlib>
#include <fstream>
#include <thread>

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../src/symbols/elf_files_only.hpp"
#include "elf_support.hpp"
#include "memleax/elf/elf_image.hpp"
#include "memleax/symbols/symbolizer.hpp"

namespace memleax {
namespace {

using ::testing::HasSubstr;

void make_fifo(const std::string& path) {
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
}

void run(const std::string& command) {
    ASSERT_EQ(std::system(command.c_str()), 0) << command; // NOLINT
}

std::string reason(const std::string& path) {
    const auto fd = open_regular_file(path);
    EXPECT_FALSE(fd);
    return fd ? "" : fd.error().message();
}

TEST(RegularFile, NothingElseIsOpened) {
    const test::TemporaryFolder folder;
    const std::string fifo = folder.file("fifo");
    make_fifo(fifo);
    test::write_file(folder.file("empty"), "");
    EXPECT_EQ(reason(fifo), fifo + ": not a regular file");
    EXPECT_EQ(reason("/dev/zero"), "/dev/zero: not a regular file");
    EXPECT_EQ(reason("/dev/tty"), "/dev/tty: not a regular file");
    EXPECT_EQ(reason("/"), "/: not a regular file");
    EXPECT_EQ(reason(folder.file("empty")), folder.file("empty") + ": the file is empty");
    EXPECT_EQ(reason("/proc/self/status"), "/proc/self/status: the file is empty");
    EXPECT_THAT(reason(folder.file("missing")), HasSubstr("No such file"));
}

TEST(RegularFile, IsOpenedThroughLinksToo) {
    const test::TemporaryFolder folder;
    test::write_file(folder.file("file"), "text");
    ASSERT_EQ(symlink(folder.file("file").c_str(), folder.file("link").c_str()), 0);
    for (const char* name : {"file", "link"}) {
        const auto fd = open_regular_file(folder.file(name));
        ASSERT_TRUE(fd) << fd.error().message();
        char text[8] = {};
        EXPECT_EQ(read(*fd, text, sizeof text), 4);
        EXPECT_STREQ(text, "text");
        EXPECT_NE(fcntl(*fd, F_GETFD) & FD_CLOEXEC, 0);
        close(*fd);
    }
}

/// errno of open(2), or 0.
int open_errno(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return errno;
    }
    close(fd);
    return 0;
}

TEST(ElfFilesOnly, HoldsInItsThreadAsLongAsItLives) {
    const test::TemporaryFolder folder;
    const std::string fifo = folder.file("fifo");
    const std::string text = folder.file("text");
    make_fifo(fifo);
    test::write_file(text, "no ELF file");
    EXPECT_EQ(open_errno(fifo), 0);
    {
        const ElfFilesOnly guard;
        EXPECT_EQ(open_errno(fifo), ENOENT);
        EXPECT_EQ(open_errno("/dev/zero"), ENOENT);
        EXPECT_EQ(open_errno(text), ENOENT);
        EXPECT_EQ(open_errno("/proc/self/exe"), 0);
        std::thread([&] { EXPECT_EQ(open_errno(text), 0); }).join();
        const int written = open(text.c_str(), O_WRONLY | O_CLOEXEC);
        EXPECT_GE(written, 0);
        close(written);
    }
    EXPECT_EQ(open_errno(text), 0);
    EXPECT_EQ(open_errno("/dev/zero"), 0);
}

TEST(ElfFilesOnly, FilesThatAreMadeHaveTheirMode) {
    const test::TemporaryFolder folder;
    const mode_t before = umask(0);
    const int fd = open(folder.file("new").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
    umask(before);
    ASSERT_GE(fd, 0);
    struct stat status {};
    EXPECT_EQ(fstat(fd, &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0640U);
    close(fd);
}

/// A small program, compiled with these options, and what a session would make of it.
class Program {
  public:
    explicit Program(const std::string& options) {
        test::write_file(file("small.c"), "int main(void) { return 0; }\n");
        run(fmt::format("cd {} && cc {} -o small small.c", file(""), options));
    }
    [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }
    /// Adds a section with this text in it.
    void add_section(const std::string& name, const std::string& text) const {
        test::write_file(file("section"), text);
        run(fmt::format("cd {} && objcopy --add-section {}=section small", file(""), name));
    }
    /// Where everything about it comes from; looks an address in main() up before.
    [[nodiscard]] std::string look() const {
        const auto image = ElfImage::open(file("small"));
        EXPECT_TRUE(image);
        auto module = std::make_shared<Module>();
        module->path = file("small");
        module->name = "small";
        module->image = *image;
        std::uint64_t main = 0;
        (*image)->for_each_function(SymbolTable::full, [&main](const ElfSymbol& symbol) {
            main = symbol.name == "main" ? symbol.address.value() : main;
        });
        module->executable.push_back({0, UINT64_MAX});
        Symbolizer symbolizer(Symbolizer::Options{});
        symbolizer.set_modules({module}, nullptr);
        EXPECT_FALSE(
            symbolizer.resolve(FrameAddress::exact(CodeAddr(main + 1)), 0)->front().pc.value() ==
            0);
        return symbolizer.describe(*module).files;
    }

  private:
    test::TemporaryFolder folder_;
};

const std::string kCrc("\0\0\1\2\3\4", 6);

TEST(DebugLink, ToAFifoOrADevice) {
    const Program program("-Wl,--build-id=none");
    program.add_section(".gnu_debuglink", "x" + kCrc);
    make_fifo(program.file("x"));
    EXPECT_THAT(program.look(), HasSubstr("no lines"));
    ASSERT_EQ(unlink(program.file("x").c_str()), 0);
    ASSERT_EQ(symlink("/dev/zero", program.file("x").c_str()), 0);
    EXPECT_THAT(program.look(), HasSubstr("no lines"));
}

TEST(DebugLink, ToACompressedFileIsNotUnpacked) {
    const Program program("-Wl,--build-id=none");
    program.add_section(".gnu_debuglink", "x" + kCrc);
    run(fmt::format("gzip -c {} >{}", program.file("small"), program.file("x")));
    EXPECT_THAT(program.look(), HasSubstr("no lines"));
}

TEST(DebugAltLink, ToAFifo) {
    const Program program("-g");
    program.add_section(".gnu_debugaltlink",
                        program.file("fifo") + std::string(1, '\0') + std::string(20, 'i'));
    make_fifo(program.file("fifo"));
    EXPECT_THAT(program.look(), HasSubstr("lines (.debug_line)"));
}

TEST(SplitDwarf, OfAFifo) {
    const Program program("-g -gsplit-dwarf");
    run(fmt::format("cd {} && rm -f *.dwo && mkfifo small-small.dwo small.dwo", program.file("")));
    EXPECT_THAT(program.look(), HasSubstr("lines (.debug_line)"));
}

/// Sections that say that they are larger than all memory when they are unpacked.
TEST(CompressedSections, ThatDoNotFitAreNotUnpacked) {
    const Program program("-g -gz=zlib");
    EXPECT_THAT(program.look(), HasSubstr("lines (.debug_line)"));
    std::fstream file(program.file("small"), std::ios::in | std::ios::out | std::ios::binary);
    Elf64_Ehdr header;
    file.read(reinterpret_cast<char*>(&header), sizeof header);
    unsigned changed = 0;
    for (unsigned i = 0; i < header.e_shnum; ++i) {
        Elf64_Shdr section;
        file.seekg(static_cast<std::streamoff>(header.e_shoff + i * sizeof section));
        file.read(reinterpret_cast<char*>(&section), sizeof section);
        if ((section.sh_flags & SHF_COMPRESSED) != 0) {
            constexpr std::uint64_t kHuge = std::uint64_t{1} << 50U;
            file.seekp(
                static_cast<std::streamoff>(section.sh_offset + offsetof(Elf64_Chdr, ch_size)));
            file.write(reinterpret_cast<const char*>(&kHuge), sizeof kHuge);
            ++changed;
        }
    }
    file.close();
    ASSERT_GT(changed, 0U);
    EXPECT_EQ(program.look(), "the file cannot be read again");
    const auto refused = Symbolizer::check_debug_file(program.file("small"));
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), HasSubstr("do not fit into memory"));
}

} // namespace
} // namespace memleax

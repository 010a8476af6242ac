// SPDX-License-Identifier: GPL-3.0-or-later
// libdw has no hook for its opens, so open(2) itself is ours: the program's definition goes before
// that of the C library in every shared library, too (ELF symbol interposition). It is the plain
// system call for those who are not guarded.
#include "elf_files_only.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <gelf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dwo_package.hpp"
#include "memleax/base/regular_file.hpp"
#include "memleax/elf/elf_file.hpp"

namespace memleax {

namespace {

thread_local unsigned open_guards = 0;
thread_local const TargetRoot* root_of_paths = nullptr;

/// Nothing but ELF: libdwfl would unpack a gzip or xz file into memory, however large it gets.
bool is_sane(int fd) {
    char magic[SELFMAG];
    if (pread(fd, magic, sizeof magic, 0) != SELFMAG || std::memcmp(magic, ELFMAG, SELFMAG) != 0) {
        return false;
    }
    const ElfFile file(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    return file.get() != nullptr && has_sane_sections(file.get());
}

bool only_reads(int flags) {
    return (flags & O_ACCMODE) == O_RDONLY && (flags & (O_CREAT | O_PATH | O_DIRECTORY)) == 0;
}

int only_if_sane(Result<int> fd) {
    if (fd && is_sane(*fd)) {
        return *fd;
    }
    const int errnum = fd ? 0 : fd.error().errnum();
    if (fd) {
        close(*fd);
    }
    errno = errnum != 0 ? errnum : ENOENT;
    return -1;
}

} // namespace

ElfFilesOnly::ElfFilesOnly(const TargetRoot* root) : before_(std::exchange(root_of_paths, root)) {
    ++open_guards;
}

ElfFilesOnly::~ElfFilesOnly() {
    --open_guards;
    root_of_paths = before_;
}

ElfFilesOnly::Suspended::Suspended() : guards_(std::exchange(open_guards, 0)) {}

ElfFilesOnly::Suspended::~Suspended() {
    open_guards = guards_;
}

int open_elf_file(const char* path) {
    const ElfFilesOnly::Suspended what_follows_are_opens_of_our_own;
    return only_if_sane(open_regular_file(path));
}

int open_elf_file_in(const TargetRoot& root, const char* path) {
    const ElfFilesOnly::Suspended what_follows_are_opens_of_our_own;
    return only_if_sane(root.open_file(path));
}

namespace {

/// For libdw.
int open_what_a_file_names(const char* path) {
    // /proc is where libdw finds its own descriptors again.
    const std::string_view name(path);
    if (root_of_paths != nullptr && name.starts_with('/') && !name.starts_with("/proc/")) {
        const int fd = open_elf_file_in(*root_of_paths, path);
        if (fd >= 0) {
            return fd;
        }
    }
    int fd = open_elf_file(path);
    if (fd < 0 && name.ends_with(".dwo") && (fd = offered_dwo()) < 0) {
        errno = ENOENT;
    }
    return fd;
}

} // namespace

} // namespace memleax

// Under other names in here, as <fcntl.h> may have inline definitions of these. open64 is what
// large-file builds of 32-bit systems call.
extern "C" {
int memleax_open(const char* path, int flags, ...) __asm__("open");     // NOLINT
int memleax_open64(const char* path, int flags, ...) __asm__("open64"); // NOLINT
}

namespace {

int guarded_open(const char* path, int flags, mode_t mode) {
    if (memleax::open_guards != 0 && memleax::only_reads(flags)) {
        return memleax::open_what_a_file_names(path);
    }
    return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

mode_t mode_of(int flags, va_list arguments) {
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

} // namespace

int memleax_open(const char* path, int flags, ...) { // NOLINT
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return guarded_open(path, flags, mode);
}

int memleax_open64(const char* path, int flags, ...) { // NOLINT
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return guarded_open(path, flags, mode);
}

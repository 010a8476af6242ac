// SPDX-License-Identifier: GPL-3.0-or-later
#include "module_file.hpp"

#include <cerrno>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memleax/base/regular_file.hpp"

namespace memleax {

namespace {

// One or two pages of code on today's kernels; the rest is room for what is to come.
constexpr std::uint64_t kMaxVdso = std::uint64_t{1} << 20;

/// btrfs gives files a device number of their subvolume in stat(2), and overlayfs that of a layer,
/// where maps has the file system's own: a device that differs proves nothing. The inode must be
/// equal; and if the name is known to have lost its file, an equal inode on another device is
/// chance.
bool is_mapped_file(int fd, const Mapping& mapping) {
    struct stat status {};
    return fstat(fd, &status) == 0 && status.st_ino == mapping.inode &&
           (status.st_dev == mapping.device || !mapping.deleted);
}

/// After chroot(2) the paths in maps are still from where the mount namespace begins, which for us
/// is mostly where ours do. -1 if there is another file.
int open_by_our_path(const Mapping& mapping) {
    const auto fd = open_regular_file(mapping.path);
    struct stat status {};
    if (!fd) {
        return -1;
    }
    if (fstat(*fd, &status) == 0 && status.st_ino == mapping.inode &&
        status.st_dev == mapping.device) {
        return *fd;
    }
    close(*fd);
    return -1;
}

Result<int> open_by_path(Tid pid, const Mapping& mapping) {
    const std::string name = last_component(mapping.path);
    auto fd = open_regular_file(fmt::format("/proc/{}/root{}", pid.value(), mapping.path));
    if (!fd) {
        if (const int ours = open_by_our_path(mapping); ours >= 0) {
            return ours;
        }
        const int errnum = fd.error().errnum();
        if (mapping.deleted && errnum == ENOENT) {
            return Error(name + ": the file was deleted on disk since the process loaded it");
        }
        return errnum != 0 ? Error(name + ": cannot open the file", errnum)
                           : Error(name + ": there is another kind of file in its place");
    }
    if (!is_mapped_file(*fd, mapping)) {
        close(*fd);
        return Error(name + ": the file was replaced on disk since the process started");
    }
    return fd;
}

} // namespace

std::string last_component(const std::string& path) {
    return path.substr(path.rfind('/') + 1); // npos + 1 == 0
}

ProgramFile ProgramFile::of(Tid pid) {
    const std::string link = fmt::format("/proc/{}/exe", pid.value());
    ProgramFile program;
    struct stat status {};
    if (stat(link.c_str(), &status) == 0) {
        program.device = status.st_dev;
        program.inode = status.st_ino;
    }
    std::string target(4096, '\0');
    const ssize_t size = readlink(link.c_str(), target.data(), target.size());
    if (size > 0) {
        target.resize(static_cast<std::size_t>(size));
        static constexpr std::string_view deleted = " (deleted)";
        if (target.ends_with(deleted)) {
            target.resize(target.size() - deleted.size());
        }
        program.path = target;
    }
    return program;
}

bool ProgramFile::is_behind(const Mapping& mapping) const {
    // As for devices that differ, see is_mapped_file().
    return inode != 0 && inode == mapping.inode &&
           (device == mapping.device || path == mapping.path);
}

Result<std::shared_ptr<ElfImage>> open_mapped_file(Tid pid, const Mapping& mapping,
                                                   const ProgramFile& program) {
    auto fd = open_regular_file(fmt::format("/proc/{}/map_files/{:x}-{:x}", pid.value(),
                                            mapping.range.begin, mapping.range.end));
    if (!fd && program.is_behind(mapping)) {
        fd = open_regular_file(fmt::format("/proc/{}/exe", pid.value()));
    }
    if (!fd) {
        fd = open_by_path(pid, mapping);
    }
    if (!fd) {
        return std::move(fd).error();
    }
    return ElfImage::from_descriptor(*fd, last_component(mapping.path));
}

Result<std::shared_ptr<ElfImage>> read_vdso(MemoryReader& memory, const Mapping& mapping) {
    if (mapping.range.size() > kMaxVdso) {
        return Error(fmt::format("{}: {} bytes are too much to be true", mapping.path,
                                 mapping.range.size()));
    }
    std::vector<std::byte> bytes(mapping.range.size());
    bytes.resize(memory.try_read(mapping.range.start(), bytes));
    return ElfImage::from_memory(std::move(bytes), mapping.path);
}

} // namespace memleax

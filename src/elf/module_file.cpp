// SPDX-License-Identifier: GPL-3.0-or-later
#include "module_file.hpp"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace memleax {

namespace {

// One or two pages of code on today's kernels; the rest is room for what is to come.
constexpr std::uint64_t kMaxVdso = std::uint64_t{1} << 20;

/// Opens a regular file. Devices can be mapped too, but opening one may have effects.
int open_regular(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
        return -1;
    }
    if (!S_ISREG(status.st_mode)) {
        errno = EINVAL;
        return -1;
    }
    return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/// btrfs gives files a device number of their subvolume in stat(2), and overlayfs that of a layer,
/// where maps has the file system's own: a device that differs proves nothing. The inode must be
/// equal; and if the name is known to have lost its file, an equal inode on another device is
/// chance.
bool is_mapped_file(int fd, const Mapping& mapping) {
    struct stat status {};
    return fstat(fd, &status) == 0 && status.st_ino == mapping.inode &&
           (status.st_dev == mapping.device || !mapping.deleted);
}

Result<int> open_by_path(Tid pid, const Mapping& mapping) {
    const std::string name = last_component(mapping.path);
    const int fd = open_regular(fmt::format("/proc/{}/root{}", pid.value(), mapping.path));
    if (fd < 0) {
        if (mapping.deleted && errno == ENOENT) {
            return Error(name + ": the file was deleted on disk since the process loaded it");
        }
        return Error(name + ": cannot open the file", errno);
    }
    if (!is_mapped_file(fd, mapping)) {
        close(fd);
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
    int fd = open_regular(fmt::format("/proc/{}/map_files/{:x}-{:x}", pid.value(),
                                      mapping.range.begin, mapping.range.end));
    if (fd < 0 && program.is_behind(mapping)) {
        fd = open_regular(fmt::format("/proc/{}/exe", pid.value()));
    }
    if (fd < 0) {
        auto by_path = open_by_path(pid, mapping);
        if (!by_path) {
            return std::move(by_path).error();
        }
        fd = *by_path;
    }
    return ElfImage::from_descriptor(fd, last_component(mapping.path));
}

Result<std::shared_ptr<ElfImage>> read_vdso(MemoryReader& memory, const Mapping& mapping) {
    if (mapping.range.size() > kMaxVdso) {
        return Error(fmt::format("{}: {} bytes are too much to be true", mapping.path,
                                 mapping.range.size()));
    }
    std::vector<std::byte> bytes(mapping.range.size());
    bytes.resize(memory.try_read(RemoteAddr(mapping.range.begin), bytes));
    return ElfImage::from_memory(std::move(bytes), mapping.path);
}

} // namespace memleax

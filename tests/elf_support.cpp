// SPDX-License-Identifier: GPL-3.0-or-later
#include "elf_support.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

namespace memleax::test {

OwnMemory::OwnMemory() : fd_(open("/proc/self/mem", O_RDONLY | O_CLOEXEC)) {}

OwnMemory::~OwnMemory() {
    ::close(fd_);
}

std::size_t OwnMemory::try_read(RemoteAddr from, std::span<std::byte> out) {
    const ssize_t got = pread(fd_, out.data(), out.size(), static_cast<off_t>(from.value()));
    return got > 0 ? static_cast<std::size_t>(got) : 0;
}

Tid own_pid() {
    return Tid(getpid());
}

TemporaryFolder::TemporaryFolder() {
    path_ = (std::filesystem::temp_directory_path() / "memleax-XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr || chmod(path_.c_str(), 0755) != 0) {
        throw std::runtime_error("no temporary folder");
    }
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

void copy_file(const std::string& from, const std::string& to) {
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
}

void write_file(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
}

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

LoadedLibrary::LoadedLibrary(const std::string& path)
    : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
        throw std::runtime_error(dlerror());
    }
}

void LoadedLibrary::close() {
    if (handle_ != nullptr) {
        dlclose(handle_);
        handle_ = nullptr;
    }
}

CodeAddr LoadedLibrary::function(const char* name) const {
    return CodeAddr(reinterpret_cast<std::uint64_t>(dlsym(handle_, name)));
}

namespace {
const link_map& link_map_of(void* handle) {
    link_map* map = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) {
        throw std::runtime_error(dlerror());
    }
    return *map;
}
} // namespace

std::uint64_t LoadedLibrary::load_bias() const {
    return link_map_of(handle_).l_addr;
}

std::string library_path(const std::string& soname) {
    void* handle = dlopen(soname.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) {
        throw std::runtime_error(dlerror());
    }
    const std::string path = link_map_of(handle).l_name;
    dlclose(handle);
    return std::filesystem::canonical(path).string();
}

} // namespace memleax::test

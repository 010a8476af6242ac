// SPDX-License-Identifier: GPL-3.0-or-later
/// For tests that look at their own process: its memory, and libraries to load and to replace.
#pragma once

#include <memory>
#include <string>

#include "memleax/proc/memory.hpp"
#include "memleax/proc/modules.hpp"

namespace memleax::test {

/// This process's memory, by /proc/self/mem.
class OwnMemory final : public MemoryReader {
  public:
    OwnMemory();
    OwnMemory(const OwnMemory&) = delete;
    OwnMemory& operator=(const OwnMemory&) = delete;
    ~OwnMemory() override;
    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override;

  private:
    int fd_;
};

Tid own_pid();

/// A folder that others may read, and that goes with everything in it.
class TemporaryFolder {
  public:
    TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder();
    [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

void copy_file(const std::string& from, const std::string& to);
void write_file(const std::string& path, const std::string& text);
/// All of its bytes; none if it cannot be read.
std::string read_file(const std::string& path);

/// The path of a shared library that the dynamic linker finds by this name.
std::string library_path(const std::string& soname);

/// A library, loaded by path as long as this lives.
class LoadedLibrary {
  public:
    explicit LoadedLibrary(const std::string& path);
    LoadedLibrary(const LoadedLibrary&) = delete;
    LoadedLibrary& operator=(const LoadedLibrary&) = delete;
    ~LoadedLibrary() { close(); }
    void close();
    [[nodiscard]] CodeAddr function(const char* name) const;
    /// As the dynamic linker has it (l_addr).
    [[nodiscard]] std::uint64_t load_bias() const;

  private:
    void* handle_;
};

} // namespace memleax::test

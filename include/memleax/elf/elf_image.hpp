// SPDX-License-Identifier: GPL-3.0-or-later
/// One ELF file as the unwinder and the allocator search need it: identity, segments, symbols.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/name_filter.hpp"
#include "memleax/base/types.hpp"

struct Elf; // libelf's handle; only src/elf/ looks inside

namespace memleax {

struct SymbolEntries;

/// A PT_LOAD program header.
struct ElfSegment {
    ElfAddr address;
    FileOffset offset;
    std::uint64_t file_size = 0;
    std::uint64_t memory_size = 0;
    bool executable = false;
    bool writable = false;
    std::uint64_t alignment = 0;
};

/// A defined function symbol.
struct ElfSymbol {
    std::string_view name; ///< points into the image
    ElfAddr address;
    std::uint64_t size = 0;
    bool indirect = false; ///< STT_GNU_IFUNC: the address is a resolver's, not the function's
};

/// Which symbol table to look in. The full one may be in a separate debug file.
enum class SymbolTable { dynamic, full };

/// An ELF file, opened read-only and kept open (names point into it). The file is untrusted: a
/// malformed one gives errors or fewer symbols, never a crash.
class ElfImage {
  public:
    /// Opens by path; the path is a path of ours (already under /proc/PID/root where that matters).
    static Result<std::shared_ptr<ElfImage>> open(const std::string& path);
    /// Takes over an open descriptor. `name` is for messages.
    static Result<std::shared_ptr<ElfImage>> from_descriptor(int fd, const std::string& name);
    /// Parses a copy of an image that was read from memory, as the vDSO.
    static Result<std::shared_ptr<ElfImage>> from_memory(std::vector<std::byte> bytes,
                                                         const std::string& name);
    ~ElfImage();
    ElfImage(const ElfImage&) = delete;
    ElfImage& operator=(const ElfImage&) = delete;

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] std::uint16_t machine() const { return machine_; }
    [[nodiscard]] bool is_64bit() const { return is_64bit_; }
    /// ET_DYN: loaded at a bias. ET_EXEC: the bias is 0.
    [[nodiscard]] bool position_independent() const { return position_independent_; }
    /// Has it a PT_INTERP or PT_DYNAMIC, that is, does a dynamic linker work on it?
    [[nodiscard]] bool is_dynamic() const { return is_dynamic_; }
    [[nodiscard]] const std::vector<ElfSegment>& segments() const { return segments_; }
    /// Path of the program interpreter (PT_INTERP), empty if none.
    [[nodiscard]] const std::string& interpreter() const { return interpreter_; }
    /// Where PT_GNU_EH_FRAME, the search table of .eh_frame, is loaded; nothing if there is none.
    [[nodiscard]] std::optional<ElfAddr> eh_frame_header() const { return eh_frame_header_; }
    /// Bytes of the NT_GNU_BUILD_ID note as lower-case hex; empty if none.
    [[nodiscard]] const std::string& build_id() const { return build_id_; }
    /// Has somebody written to the file since it was opened? Then what was read from it before and
    /// what is read now do not belong together.
    [[nodiscard]] bool changed_on_disk() const;
    /// from_memory() only: the copy, for those who need a libelf handle of their own.
    [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

    /// Calls `each` for every defined function symbol of the table, but not for those whose
    /// names `filter`, if there is one, does not know. Linear in the table's size.
    void for_each_function(SymbolTable table, const std::function<void(const ElfSymbol&)>& each,
                           const NameFilter* filter = nullptr) const;
    /// Its own, or those of set_debug_symbols().
    [[nodiscard]] bool has_full_symbols() const;
    /// What a file without .symtab has in its stead from now on.
    void set_debug_symbols(std::shared_ptr<const SymbolEntries> symbols);
    /// A defined variable, of either table. Nothing if there are several of this name (static
    /// ones), of which nobody knows which is meant. Linear in their size.
    [[nodiscard]] std::optional<ElfSymbol> find_variable(std::string_view name) const;

    /// The libelf handle, for src/elf/ only. libelf and libdw handles are not thread-safe: one
    /// image belongs to one thread. The descriptor stays open as long as the image.
    [[nodiscard]] Elf* handle() const { return elf_; }
    /// -1 if the image is from memory.
    [[nodiscard]] int descriptor() const { return fd_; }

  private:
    ElfImage() = default;
    static Result<std::shared_ptr<ElfImage>> parse(std::shared_ptr<ElfImage> image);
    [[nodiscard]] std::optional<SymbolEntries> symbols_of(SymbolTable table) const;

    std::string name_;
    std::vector<std::byte> bytes_; ///< from_memory only
    int fd_ = -1;
    std::uint64_t file_size_ = 0;
    std::pair<std::int64_t, std::int64_t> modified_; ///< seconds, nanoseconds
    Elf* elf_ = nullptr;
    std::uint16_t machine_ = 0;
    bool is_64bit_ = false;
    bool position_independent_ = false;
    bool is_dynamic_ = false;
    std::string interpreter_;
    std::optional<ElfAddr> eh_frame_header_;
    std::string build_id_;
    std::vector<ElfSegment> segments_;
    std::shared_ptr<const SymbolEntries> debug_symbols_;
};

} // namespace memleax

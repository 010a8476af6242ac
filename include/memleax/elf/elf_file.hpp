// SPDX-License-Identifier: GPL-3.0-or-later
/// A libelf handle of one's own, and what several places look for by it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <gelf.h>

namespace memleax {

/// A file that is open with its libelf handle. Not mapped: libelf reads what it is asked for.
class ElfFile {
  public:
    /// Takes over a descriptor; -1 is a file that is not there.
    explicit ElfFile(int fd);
    ~ElfFile();
    ElfFile(const ElfFile&) = delete;
    ElfFile& operator=(const ElfFile&) = delete;

    /// Null if it was not opened; elf_kind() tells whether it is an ELF file.
    [[nodiscard]] Elf* get() const { return elf_; }
    /// Closes the file; what has been read of it stays (elf_cntl).
    void close_file();

  private:
    int fd_;
    Elf* elf_ = nullptr;
};

/// Is there a section with contents in the file that `is_wanted` says yes to?
bool has_section(Elf* elf, const std::function<bool(std::string_view name, const GElf_Shdr& header,
                                                    Elf_Scn* section)>& is_wanted);

/// What libelf reads whole, holes and all, must not be larger than this, as a sparse file may say:
/// a symbol table, names (a browser's are a tenth of that), or probes.
inline constexpr std::uint64_t kMostElfTable = std::uint64_t{1} << 30U;
/// Null if it is compressed or too large to be true.
Elf_Data* read_section(Elf_Scn* section);

/// Are the notes that are loaded (PT_NOTE) of a size that may be true?
bool has_sane_notes(Elf* elf);

/// Do the compressed sections fit into memory, with room for others? zlib makes a thousand bytes of
/// one, and libdw unpacks all debug sections when it opens a file. No for a null handle, or if the
/// notes are not sane.
bool has_sane_sections(Elf* elf);

/// Bytes of the NT_GNU_BUILD_ID note as lower-case hex; "" if there is none, or the notes are
/// not sane.
std::string build_id_of(Elf* elf);

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
/// A .dwp file: the .dwo files of a program in one (DWARF 5, 7.3.5; before that GNU's
/// "DebugFissionDWP"). libdw 0.188 reads .dwo files only (0.191 reads both), so one unit at a time
/// is taken out of the package and made into the .dwo file that it was.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "memleax/elf/elf_file.hpp"

namespace memleax {

/// The file is untrusted: what does not fit together is not there.
class DwoPackage {
  public:
    /// Takes over the descriptor of an ELF file of sane size. Null if that is no package.
    static std::unique_ptr<DwoPackage> open(int fd);

    /// The unit with this id (DW_AT_GNU_dwo_id, or a skeleton's id) as an ELF file in memory; a
    /// descriptor for the caller, -1 if it has none.
    [[nodiscard]] int make_dwo(std::uint64_t id) const;

    /// While one lives in a thread, a .dwo file that libdw opens there, and that does not exist, is
    /// this one.
    class Offer {
      public:
        /// Takes over the descriptor, which may be -1.
        explicit Offer(int fd);
        ~Offer();
        Offer(const Offer&) = delete;
        Offer& operator=(const Offer&) = delete;

      private:
        int before_;
    };

  private:
    using Bytes = std::span<const std::byte>;
    /// Sections by their number in the index, which means two of them different things in DWARF 4
    /// and 5.
    static constexpr std::size_t kKinds = 9;

    explicit DwoPackage(int fd) : file_(fd) {}
    bool read_sections();
    [[nodiscard]] std::optional<std::uint32_t> row_of(std::uint64_t id) const;
    [[nodiscard]] const char* name_of(std::size_t kind) const;

    ElfFile file_;
    std::array<Bytes, kKinds> sections_; ///< those of all units
    Bytes strings_;
    Bytes index_;
    bool is_dwarf5_ = false;
    std::uint32_t columns_ = 0;
    std::uint32_t units_ = 0;
    std::uint32_t slots_ = 0;
};

/// A descriptor for the caller of what is on offer in this thread, or -1.
int offered_dwo();

} // namespace memleax

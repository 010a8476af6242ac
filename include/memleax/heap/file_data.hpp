// SPDX-License-Identifier: GPL-3.0-or-later
/// Is a word an address of a file's data, as those of vtables are? They are read-only data of a
/// file, or were so until the dynamic linker had relocated them. With them lies code where the
/// linker does not separate the two, as arm64's does not.
#pragma once

#include <cstdint>
#include <span>

#include "memleax/proc/maps.hpp"

namespace memleax {

class FileData {
  public:
    /// The mappings ascend, and must outlive it.
    explicit FileData(std::span<const Mapping> mappings) : mappings_(mappings) {}

    [[nodiscard]] bool contains(std::uint64_t word) {
        if (word - outside_.begin < outside_.end - outside_.begin) {
            return false;
        }
        return inside_.contains(word) || look_up(word);
    }

  private:
    bool look_up(std::uint64_t word);

    std::span<const Mapping> mappings_;
    // Most words are near the one before.
    AddrRange inside_{0, 0};  ///< one file's data
    AddrRange outside_{0, 0}; ///< no file's data is there
};

} // namespace memleax

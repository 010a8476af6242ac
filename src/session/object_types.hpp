// SPDX-License-Identifier: GPL-3.0-or-later
/// Which type has an object that begins with this word? By C++'s run-time type information, which
/// needs no symbols (Itanium C++ ABI, 2.9.4).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "memleax/heap/file_data.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/session/stack_names.hpp"

namespace memleax {

class ObjectTypes {
  public:
    /// All must outlive it. `mappings` ascend.
    ObjectTypes(MemoryReader& memory, std::span<const Mapping> mappings, StackNames& names)
        : memory_(memory), file_data_(mappings), names_(names) {}

    /// "shop::Session"; "" if it is no vtable.
    [[nodiscard]] std::string type(std::uint64_t vtable);

  private:
    MemoryReader& memory_;
    FileData file_data_;
    StackNames& names_;
};

} // namespace memleax

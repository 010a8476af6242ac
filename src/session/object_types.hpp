// SPDX-License-Identifier: GPL-3.0-or-later
/// Which type has an object that begins with this word? By C++'s run-time type information, which
/// needs no symbols (Itanium C++ ABI, 2.9.4).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "memleax/proc/maps.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/session/stack_names.hpp"

namespace memleax {

class ObjectTypes {
  public:
    /// All must outlive it. `mappings` ascend.
    ObjectTypes(MemoryReader& memory, std::span<const Mapping> mappings, StackNames& names)
        : memory_(memory), mappings_(mappings), names_(names) {}

    /// Can it be the address of a vtable at all? Cheap.
    [[nodiscard]] bool may_be_vtable(std::uint64_t word);
    /// "shop::Session"; "" if it is no vtable.
    [[nodiscard]] std::string type(std::uint64_t vtable);

  private:
    [[nodiscard]] const Mapping* data_at(std::uint64_t address);

    MemoryReader& memory_;
    std::span<const Mapping> mappings_;
    StackNames& names_;
    const Mapping* last_ = nullptr; ///< found
};

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
/// The target's memory that does not change while its modules do not: what is mapped from files and
/// not writable, as code and unwind tables are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <absl/container/flat_hash_map.h>

#include "memleax/proc/memory.hpp"
#include "memleax/proc/modules.hpp"

namespace memleax {

/// Copies of it, made when they are asked for first.
class ConstantPages {
  public:
    /// Both must outlive it.
    ConstantPages(const ModuleMap& modules, MemoryReader& memory)
        : modules_(modules), memory_(memory) {}

    /// A word of it, at any address; nothing if this is other memory, or unreadable.
    [[nodiscard]] std::optional<std::uint64_t> word(RemoteAddr at);
    void forget();

  private:
    static constexpr std::size_t kPage = 4096; // of ours; need not be the kernel's
    static constexpr std::size_t kMaxPages = 2048;
    using Page = std::array<std::byte, kPage>;

    /// Null: not constant, or unreadable.
    const Page* page(std::uint64_t number);
    [[nodiscard]] bool is_constant(RemoteAddr page) const;

    const ModuleMap& modules_;
    MemoryReader& memory_;
    absl::flat_hash_map<std::uint64_t, std::unique_ptr<Page>> pages_;
    std::uint64_t last_number_ = ~std::uint64_t{0}; ///< a table is read word by word
    const Page* last_ = nullptr;
};

} // namespace memleax

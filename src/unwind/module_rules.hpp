// SPDX-License-Identifier: GPL-3.0-or-later
/// The rules of a live process: from its modules' tables, or, without, from its code.
#pragma once

#include <memory>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/elf/cfi.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/modules.hpp"
#include "rule_source.hpp"

namespace memleax {

class ModuleRules final : public RuleSource {
  public:
    /// Both must outlive this.
    ModuleRules(const ModuleMap& modules, MemoryReader& memory)
        : modules_(modules), memory_(memory) {}

    Rule rule(FrameAddress frame) override;
    const CfiRow* row(FrameAddress frame) override;
    /// See Unwinder.
    void add_own_return_place(CodeAddr place) { own_return_places_.push_back(place); }
    void forget_own_return_places() { own_return_places_.clear(); }
    /// Forgets rows, and the tables of modules that are gone.
    void modules_changed();

  private:
    /// A row is about 1 kB; programs with slow frames have few of them.
    static constexpr std::size_t kMaxRows = 4096;

    std::unique_ptr<CfiRow> read_row(FrameAddress frame);

    const ModuleMap& modules_;
    MemoryReader& memory_;
    std::vector<CodeAddr> own_return_places_;
    /// Made when a module's first frame is seen. Module objects live as long as the ModuleMap.
    absl::flat_hash_map<const Module*, std::unique_ptr<CfiTable>> tables_;
    /// Rows of frames that were walked the slow way; null where there is none.
    absl::flat_hash_map<FrameAddress, std::unique_ptr<CfiRow>> rows_;
};

} // namespace memleax

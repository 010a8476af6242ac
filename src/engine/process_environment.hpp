// SPDX-License-Identifier: GPL-3.0-or-later
/// A process's modules and mappings, as the meaning of calls depends on them.
#pragma once

#include <optional>
#include <vector>

#include "memleax/calls/call_environment.hpp"
#include "memleax/engine/watch.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

class ProcessEnvironment final : public CallEnvironment {
  public:
    /// All must outlive it.
    ProcessEnvironment(Target& target, ModuleMap& modules, WatchObserver& observer)
        : target_(target), modules_(modules), observer_(observer) {}

    /// These are the mappings at a time when all functions are watched: see in_new_heap().
    void set_first_mappings(const std::vector<Mapping>& mappings);

    MemoryReader& memory() override { return target_.memory(); }
    [[nodiscard]] bool in_same_module(CodeAddr a, CodeAddr b) override;
    [[nodiscard]] bool in_main_module(CodeAddr code) override;
    [[nodiscard]] bool makes_exception(CodeAddr code) override;
    [[nodiscard]] bool frees_cached_blocks(CodeAddr code) override;
    [[nodiscard]] std::optional<RemoteAddr> find_variable(CodeAddr code, const char* name) override;
    [[nodiscard]] AddrRange mapping_at(RemoteAddr begin) override;
    void before_pages_go() override { observer_.before_pages_go(); }
    [[nodiscard]] bool in_new_heap(RemoteAddr address, MonotonicNs now) override;

  private:
    void look_at_heap();

    Target& target_;
    ModuleMap& modules_;
    WatchObserver& observer_;
    AddrRange new_heap_;                   ///< what came since the first mappings, as last seen
    std::optional<MonotonicNs> heap_seen_; ///< when that was
};

} // namespace memleax

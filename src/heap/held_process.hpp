// SPDX-License-Identifier: GPL-3.0-or-later
/// A process whose threads all stand still, as who reads its heap sees it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/target/process_copy.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

class HeldProcess {
  public:
    HeldProcess() = default;
    HeldProcess(const HeldProcess&) = delete;
    HeldProcess& operator=(const HeldProcess&) = delete;
    virtual ~HeldProcess() = default;

    [[nodiscard]] virtual Target& target() = 0;
    /// All of them, stopped.
    [[nodiscard]] virtual const std::vector<Tid>& threads() const = 0;
    /// Lets these of them run on for so long, and stops them again: one that is at work where the
    /// others must not look comes to an end of that.
    Result<void> run_on(std::span<const Tid> threads, int us) {
        mappings_.reset();
        return let_run(threads, us);
    }
    /// As they are while it stands still, until run_on(): read once, as that takes up to a
    /// millisecond.
    [[nodiscard]] const Result<std::vector<Mapping>>& mappings() {
        if (!mappings_) {
            mappings_.emplace(read_maps(target().pid()));
        }
        return *mappings_;
    }
    /// Whoever ends this copy of it, when it has been read.
    virtual void keep_copy(std::shared_ptr<ProcessCopy> copy) = 0;

  private:
    virtual Result<void> let_run(std::span<const Tid> threads, int us) = 0;

    std::optional<Result<std::vector<Mapping>>> mappings_;
};

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
/// A process's modules, on their way from the tracer thread to the one that looks names up.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "memleax/proc/generated_code.hpp"
#include "memleax/proc/modules.hpp"

namespace memleax {

/// For any thread.
class ModuleMailbox {
  public:
    /// Copies of the modules so far, and which of them is the program.
    struct Modules {
        std::vector<std::shared_ptr<const Module>> all;
        std::shared_ptr<const Module> main;
        GeneratedCode generated;
    };
    /// Always by the same thread.
    void put(const ModuleMap& modules, GeneratedCode generated = {});
    /// There will be no more. By that thread, too.
    void close() { std::vector<std::shared_ptr<const Module>>().swap(sent_); }
    /// Nothing if there was no change since the last call.
    [[nodiscard]] std::optional<Modules> take();

  private:
    /// What the other thread sees of ModuleMap::all(), element by element: the map's own may
    /// change.
    std::vector<std::shared_ptr<const Module>> sent_;
    std::mutex mutex_;
    std::optional<Modules> modules_;
};

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
/// The account of probes: by name, call stack and first argument.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/types.hpp"
#include "memleax/events/probe_hit.hpp"

namespace memleax {

struct ProbeCalls {
    struct Stack {
        StackId stack;
        std::uint64_t calls = 0;
    };
    struct Argument {
        std::int64_t value = 0;
        std::uint64_t calls = 0;
    };
    std::string name;
    std::uint64_t calls = 0;
    std::vector<Stack> stacks;         ///< in the order in which they were first seen, ...
    std::vector<Argument> arguments;   ///< ... and these likewise: values of the first argument
    std::uint64_t other_arguments = 0; ///< calls with a value beyond kMostArguments
};

class ProbeAccount {
  public:
    /// Of one probe, more values than that are not told apart.
    static constexpr std::size_t kMostArguments = 1000;

    void on_probe(std::string_view name) { (void)find_or_add(name); }
    void on_hit(const ProbeHit& hit);
    /// In the order in which they were first watched.
    [[nodiscard]] const std::vector<ProbeCalls>& probes() const { return probes_; }

  private:
    struct Index {
        absl::flat_hash_map<StackId, std::size_t> stacks;
        absl::flat_hash_map<std::int64_t, std::size_t> arguments;
    };
    std::size_t find_or_add(std::string_view name);

    std::vector<ProbeCalls> probes_;
    std::vector<Index> index_; ///< of each
    absl::flat_hash_map<std::string, std::size_t> by_name_;
};

} // namespace memleax

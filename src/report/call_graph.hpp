// SPDX-License-Identifier: GPL-3.0-or-later
/// Call stacks added up to a graph of functions, for formats that know callers and callees only.
///
/// Self cost is where an allocation was made: at the innermost frame, mostly malloc itself. Each
/// call on the way down to it has the stack's cost as its inclusive cost, if it is the stack's
/// first into that function:
///
///     main -> f -> g -> f -> malloc, 8 bytes:   main->f 8, f->g 8, g->f 0, f->malloc 8
///
/// Thus the calls into a function add up to the cost of the stacks that it is in, however it
/// recurses; that is how callgrind_annotate and KCachegrind get at its inclusive cost. Above each
/// stack is a function that stands for what has begun it, as a thread's first function may be
/// called elsewhere, and above that, where processes are told apart, one for the process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "frame_cache.hpp"
#include "memleax/report/report.hpp"
#include "module_index.hpp"
#include "name_table.hpp"

namespace memleax {

class CallGraph {
  public:
    static constexpr std::array kEvents{"live_bytes",  "live_blocks", "leak_bytes",
                                        "leak_blocks", "alloc_bytes", "alloc_blocks"};
    static constexpr std::size_t kAllocBlocks = kEvents.size() - 1;
    using Cost = std::array<std::uint64_t, kEvents.size()>;
    using Name = std::uint32_t; ///< a number in names()
    using FunctionId = std::uint32_t;
    static constexpr std::uint32_t kNone = 0xffffffff;

    struct Function {
        Name object = 0; ///< path of its module
        Name file = 0;
        Name name = 0;
    };
    /// What is spent at a line of a function.
    struct LineCost {
        unsigned line = 0;
        FunctionId callee = kNone; ///< kNone: by the function itself
        Cost cost{};
        std::uint64_t calls = 0; ///< allocations made through it
    };

    /// `report` must outlive the graph.
    explicit CallGraph(const Report& report);

    /// By FunctionId.
    [[nodiscard]] const std::vector<Function>& functions() const { return functions_; }
    /// By line, then by callee.
    [[nodiscard]] std::vector<LineCost> costs(FunctionId caller) const;
    [[nodiscard]] const Cost& total() const { return total_; }
    [[nodiscard]] const std::string& name(Name number) const { return names_.name(number); }
    /// What callgrind writes where it does not know.
    static constexpr const char* kUnknown = "???";

  private:
    /// A function that is running, at a line.
    struct Call {
        FunctionId function = kNone;
        unsigned line = 0;
    };

    /// A step on the way down a stack. There are as many as frames, 5 million of 10^5 stacks: they
    /// are sorted and added up function by function, as a map of all edges is slow for want of
    /// cache and memory.
    struct Step {
        unsigned line = 0;
        FunctionId callee = kNone; ///< kNone: the stack ends here
        std::uint32_t stack : 31;
        std::uint32_t has_cost : 1; ///< not so if the stack has been in the callee before
    };

    void add(const CallStackReport& stack, std::uint32_t index);
    FunctionId function(const std::string& object, const std::string& file,
                        const std::string& name);
    std::vector<Call> calls_of(const ResolvedFrame& frame);

    const Report& report_;
    ModuleIndex modules_;
    NameTable names_;
    std::vector<Function> functions_;
    absl::flat_hash_map<std::tuple<Name, Name, Name>, FunctionId> function_ids_;
    FrameCache<std::vector<Call>> frame_calls_; ///< innermost first
    std::vector<std::vector<Step>> steps_;      ///< from each function
    std::vector<std::uint32_t> last_stack_;     ///< that each function was in
    std::vector<Cost> stack_costs_;
    Cost total_{};
};

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
#include "call_graph.hpp"

#include <utility>

#include "frame_labels.hpp"
#include "memleax/printable.hpp"
#include "utf8.hpp"

namespace memleax {

namespace {

void add_to(CallGraph::Cost& sum, const CallGraph::Cost& cost) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] += cost[i];
    }
}

CallGraph::Cost cost_of(const CallStackReport& stack) {
    const BlockCount leak = stack.may_leak();
    return {stack.live.bytes, stack.live.blocks, leak.bytes,
            leak.blocks,      stack.alloc.bytes, stack.alloc.blocks};
}

/// What has begun a stack, if nothing is missing.
constexpr const char* kThreadStart = "[thread start]";

} // namespace

CallGraph::CallGraph(const Report& report) : report_(report), modules_(report.modules) {
    std::uint32_t index = 0;
    for (const CallStackReport& stack : report.callstacks) {
        add(stack, index++);
    }
}

CallGraph::FunctionId CallGraph::function(std::string object, std::string file, std::string name) {
    const auto number = [this](std::string text) {
        return names_.number(text.empty() ? kUnknown : valid_utf8(printable(std::move(text))))
            .first;
    };
    // Braces: in this order, whatever the compiler.
    const std::tuple key{number(std::move(object)), number(std::move(file)),
                         number(std::move(name))};
    const auto [entry, is_new] =
        function_ids_.try_emplace(key, static_cast<FunctionId>(functions_.size()));
    if (is_new) {
        Function& added = functions_.emplace_back();
        std::tie(added.object, added.file, added.name) = key;
    }
    return entry->second;
}

/// Innermost first.
const std::vector<CallGraph::Call>& CallGraph::calls_of(const ResolvedFrame& frame) {
    std::vector<Call>& calls = frame_calls_[frame.get()];
    if (calls.empty()) {
        const auto module = modules_.find(frame->back());
        const std::string& object = module ? report_.modules[*module].path : frame->back().module;
        for (const SourceFrame& call : *frame) {
            calls.push_back({function(object, call.file, function_label(call)), call.line});
        }
    }
    return calls;
}

CallGraph::LineCost& CallGraph::cost_at(Call caller, FunctionId callee) {
    const auto index = static_cast<std::uint32_t>(costs_.size());
    const auto [entry, is_new] =
        cost_ids_.try_emplace(std::tuple(caller.function, caller.line, callee), index);
    if (is_new) {
        LineCost& added = costs_.emplace_back();
        added.line = caller.line;
        added.callee = callee;
        Function& function = functions_[caller.function];
        (function.first == kNone ? function.first : costs_[function.last].next) = index;
        function.last = index;
    }
    return costs_[entry->second];
}

void CallGraph::add(const CallStackReport& stack, std::uint32_t index) {
    const Cost cost = cost_of(stack);
    add_to(total_, cost);
    const std::string missing = missing_frames_label(stack);
    Call caller{function("", "", missing.empty() ? kThreadStart : missing), 0};
    functions_[caller.function].seen = index;
    const auto frames = stack.frames.machine_frames();
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
        const std::vector<Call>& calls = calls_of(*frame);
        for (auto callee = calls.rbegin(); callee != calls.rend(); ++callee) {
            LineCost& edge = cost_at(caller, callee->function);
            if (edge.seen != index) {
                edge.calls += stack.alloc.blocks;
                edge.seen = index;
            }
            Function& called = functions_[callee->function];
            if (called.seen != index) {
                add_to(edge.cost, cost);
                called.seen = index;
            }
            caller = *callee;
        }
    }
    add_to(cost_at(caller, kNone).cost, cost);
}

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
#include "call_graph.hpp"

#include <algorithm>
#include <utility>

#include "frame_labels.hpp"
#include "memleax/base/printable.hpp"

namespace memleax {

namespace {

void add_to(CallGraph::Cost& sum, const CallGraph::Cost& cost) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] += cost[i];
    }
}

CallGraph::Cost cost_of(const CallStackReport& stack) {
    const BlockCount leak = stack.may_leak();
    static_assert(CallGraph::kAllocBlocks == 5);
    return {stack.live.bytes, stack.live.blocks, leak.bytes,
            leak.blocks,      stack.alloc.bytes, stack.alloc.blocks};
}

/// What has begun a stack, if nothing is missing.
constexpr const char* kThreadStart = "[thread start]";

} // namespace

CallGraph::CallGraph(const Report& report) : report_(report), modules_(report.modules) {
    stack_costs_.reserve(report.callstacks.size());
    std::uint32_t index = 0;
    for (const CallStackReport& stack : report.callstacks) {
        add(stack, index++);
    }
    for (std::vector<Step>& steps : steps_) {
        std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
            return std::tuple(a.line, a.callee, a.stack) < std::tuple(b.line, b.callee, b.stack);
        });
    }
}

CallGraph::FunctionId CallGraph::function(const std::string& object, const std::string& file,
                                          const std::string& name) {
    const auto number = [this](const std::string& text) {
        return names_.number(text.empty() ? kUnknown : printable(text)).first;
    };
    // Braces: in this order, whatever the compiler.
    const std::tuple key{number(object), number(file), number(name)};
    const auto [entry, is_new] =
        function_ids_.try_emplace(key, static_cast<FunctionId>(functions_.size()));
    if (is_new) {
        Function& added = functions_.emplace_back();
        std::tie(added.object, added.file, added.name) = key;
        steps_.emplace_back();
        last_stack_.push_back(kNone);
    }
    return entry->second;
}

std::vector<CallGraph::Call> CallGraph::calls_of(const ResolvedFrame& frame) {
    const auto module = modules_.find(frame->back());
    const std::string& object = module ? report_.modules[*module].path : frame->back().module;
    std::vector<Call> calls;
    for (const SourceFrame& call : *frame) {
        calls.push_back({function(object, call.file, function_label(call)), call.line});
    }
    return calls;
}

void CallGraph::add(const CallStackReport& stack, std::uint32_t index) {
    stack_costs_.push_back(cost_of(stack));
    add_to(total_, stack_costs_.back());
    const std::string missing = missing_frames_label(stack.frames, stack.end);
    Call caller{function("", "", missing.empty() ? kThreadStart : missing), 0};
    // Outside of all: the process, then the kind of memory.
    FunctionId inner = caller.function;
    for (const std::string& label : {kind_label(stack), process_label(report_, stack.process)}) {
        if (!label.empty()) {
            const FunctionId root = function("", "", label);
            steps_[root].push_back({0, inner, index, 1});
            last_stack_[root] = index;
            inner = root;
        }
    }
    last_stack_[caller.function] = index;
    const auto frames = stack.frames.machine_frames();
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
        const std::vector<Call>& calls = frame_calls_.get(
            *frame, [this](const ResolvedFrame& resolved) { return calls_of(resolved); });
        for (auto callee = calls.rbegin(); callee != calls.rend(); ++callee) {
            std::uint32_t& last = last_stack_[callee->function];
            steps_[caller.function].push_back(
                {caller.line, callee->function, index, last != index ? 1U : 0U});
            last = index;
            caller = *callee;
        }
    }
    steps_[caller.function].push_back({caller.line, kNone, index, 1});
}

std::vector<CallGraph::LineCost> CallGraph::costs(FunctionId caller) const {
    std::vector<LineCost> costs;
    std::uint32_t last_stack = kNone;
    for (const Step& step : steps_[caller]) {
        if (costs.empty() || costs.back().line != step.line || costs.back().callee != step.callee) {
            costs.push_back({step.line, step.callee});
            last_stack = kNone;
        }
        LineCost& edge = costs.back();
        const Cost& cost = stack_costs_[step.stack];
        if (step.has_cost != 0) {
            add_to(edge.cost, cost);
        }
        if (step.callee != kNone && step.stack != last_stack) {
            edge.calls += cost[kAllocBlocks];
        }
        last_stack = step.stack;
    }
    return costs;
}

} // namespace memleax

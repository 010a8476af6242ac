// SPDX-License-Identifier: GPL-3.0-or-later
#include "patched_functions.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "memleax/base/log.hpp"

namespace memleax {

namespace {

/// Where no thread may be when the jump comes.
AddrRange behind(const Breakpoint& entry) {
    const std::uint64_t at = entry.address().value();
    return {at + 1, at + arch::kEntryJumpBytes};
}

/// What the agent is to know of a function.
agent::Function describe(const AllocatorEntry& entry, int number) {
    const AllocatorFunction& function = *entry.function;
    agent::Function described;
    described.number = static_cast<std::uint8_t>(number);
    switch (function.call) {
    case AllocatorCall::free:
        described.kind = agent::Function::Kind::free;
        break;
    case AllocatorCall::realloc:
        described.kind = agent::Function::Kind::reallocate;
        break;
    case AllocatorCall::allocate:
        described.kind = agent::Function::Kind::allocate;
        break;
    }
    described.pointer_argument = static_cast<std::int8_t>(function.pointer_argument);
    described.size_argument = static_cast<std::int8_t>(function.size_argument);
    described.count_argument = static_cast<std::int8_t>(function.count_argument);
    described.out_argument = static_cast<std::int8_t>(function.out_argument);
    described.nothrow_argument = static_cast<std::int8_t>(function.nothrow_argument);
    described.allocated_by = static_cast<std::uint8_t>(entry.by);
    described.called = entry.nothrow_twin.value();
    return described;
}

/// That a process ends meanwhile is nothing to be told.
void tell_why_all_stop(const Error& error) {
    if (error.errnum() != ESRCH) {
        log_info("every call stops its thread: {}", error.message());
    }
}

} // namespace

bool PatchedFunctions::can_be(const AllocatorEntry& entry) {
    const AllocatorFunction& function = *entry.function;
    const bool is_plain = function.family == kMemory && function.origin.empty() &&
                          function.mapping == MappingCall::none &&
                          function.out_argument < arch::kAgentKeptArguments &&
                          function.next_argument < 0 && !function.is_descriptor;
    // An exception must not pass the agent's frame.
    const bool may_throw = function.throws && entry.nothrow_twin.value() == 0;
    constexpr int kArguments = 4; // that the agent can read
    const bool are_near = function.pointer_argument < kArguments &&
                          function.size_argument < kArguments &&
                          function.count_argument < kArguments;
    const bool needs_pointer = function.call != AllocatorCall::allocate;
    const bool needs_size = function.call != AllocatorCall::free;
    return is_plain && !may_throw && are_near &&
           (!needs_pointer || function.pointer_argument >= 0) &&
           (!needs_size || function.size_argument >= 0);
}

bool PatchedFunctions::may_have_jump(const AllocatorEntry& function, Tid worker, bool checks) {
    if (!can_be(function)) {
        return false;
    }
    if (!memory_.mapped() && !gave_up_) {
        if (auto mapped = memory_.map(worker, checks); !mapped) {
            tell_why_all_stop(mapped.error());
            gave_up_ = true;
        }
    }
    return memory_.mapped() && !gave_up_;
}

void PatchedFunctions::add(const CallFollower& follower, int first, Tid worker) {
    const auto last = static_cast<int>(follower.functions().size());
    functions_.resize(static_cast<std::size_t>(last));
    if (gave_up_ || is_leaving_ || !memory_.mapped()) {
        return;
    }
    std::vector<AddrRange> behind_entries;
    for (int number = first; number < last; ++number) {
        const AllocatorEntry function = follower.function(number);
        Breakpoint* entry = breakpoints_.find(function.address);
        if (number >= static_cast<int>(agent::kMaxFunctions) || entry == nullptr ||
            !entry->takes_jump || !entry->slot || entry->entry != number || !can_be(function)) {
            continue;
        }
        if (auto done = patch(function, number, entry, worker); !done) {
            log_debug("{} keeps its breakpoint: {}", function.function->name,
                      done.error().message());
            continue;
        }
        behind_entries.push_back(behind(*entry));
    }
    if (!behind_entries.empty()) {
        begin_proof(behind_entries);
        look_at(worker);
        waits_for_proof_ = !proof_.is_done();
        any_new_ = true;
        advance();
    }
}

void PatchedFunctions::begin_proof(const std::vector<AddrRange>& behind_entries) {
    proof_.begin(behind_entries);
    waits_for_proof_ = !proof_.is_done();
}

Result<Breakpoint*> PatchedFunctions::add_gate(Breakpoint* entry, bool of_c_library, Tid worker) {
    const auto is_its = [entry](const Function& gate) { return gate.entry == entry; };
    if (gave_up_ || is_leaving_ || !memory_.mapped() || !entry->takes_jump || !entry->slot ||
        std::any_of(gates_.begin(), gates_.end(), is_its) ||
        std::any_of(waiting_gates_.begin(), waiting_gates_.end(), is_its)) {
        return nullptr;
    }
    auto thunk = memory_.add_gate(entry->address(), *entry->slot, worker);
    if (!thunk) {
        return std::move(thunk).error();
    }
    auto trap = insert_trap(*thunk, entry->address(), worker);
    if (trap) {
        waiting_gates_.push_back({entry, *trap, thunk->entry});
        waiting_gates_.back().answers = of_c_library;
        tell_answer(waiting_gates_.back());
    }
    return trap;
}

void PatchedFunctions::set_answer(std::optional<std::uint64_t> handler) {
    answer_ = handler;
    for (const auto* gates : {&gates_, &waiting_gates_}) {
        for (const Function& gate : *gates) {
            tell_answer(gate);
        }
    }
}

// The handler, before anybody looks for it.
void PatchedFunctions::tell_answer(const Function& gate) {
    if (!gate.answers) {
        return;
    }
    if (answer_) {
        memory_.set_gate_handler(gate.thunk, *answer_);
    }
    memory_.set_gate_answers(gate.thunk, answer_.has_value());
}

// While they wait, our death lets their breakpoints go at once; a jump on its way takes some
// milliseconds.
bool PatchedFunctions::take_waiting_gates() {
    std::vector<AddrRange> behind_entries;
    for (const Function& gate : std::exchange(waiting_gates_, {})) {
        behind_entries.push_back(behind(*gate.entry));
        gates_.push_back(gate);
    }
    if (!behind_entries.empty()) {
        begin_proof(behind_entries);
    }
    return !behind_entries.empty();
}

std::vector<PatchedFunctions::Function*> PatchedFunctions::all() {
    std::vector<Function*> result;
    for (auto* functions : {&functions_, &gates_}) {
        for (Function& function : *functions) {
            result.push_back(&function);
        }
    }
    return result;
}

Result<void> PatchedFunctions::patch(const AllocatorEntry& function, int number, Breakpoint* entry,
                                     Tid worker) {
    const agent::Function described = describe(function, number);
    const std::size_t places_before = memory_.return_places().size();
    auto thunk = memory_.add_function(function.address, *entry->slot, described, worker);
    if (!thunk) {
        return std::move(thunk).error();
    }
    for (std::size_t i = places_before; i < memory_.return_places().size(); ++i) {
        unwinder_.add_own_return_place(memory_.return_places()[i]);
    }
    auto trap = insert_trap(*thunk, function.address, worker);
    if (!trap) {
        return std::move(trap).error();
    }
    (*trap)->entry = number;
    functions_[static_cast<std::size_t>(number)] = {entry, *trap, thunk->entry,
                                                    described.kind == agent::Function::Kind::free};
    return {};
}

Result<Breakpoint*> PatchedFunctions::insert_trap(const AgentMemory::Thunk& thunk,
                                                  CodeAddr function, Tid worker) {
    auto trap = breakpoints_.insert(thunk.trap, worker);
    if (!trap) {
        return trap;
    }
    const auto stands = breakpoints_.set_stands_for(**trap, function);
    return stands ? std::move(trap) : Result<Breakpoint*>(stands.error());
}

const PatchedFunctions::Function* PatchedFunctions::of_trap(const Breakpoint& breakpoint) const {
    const auto number = static_cast<std::size_t>(breakpoint.entry);
    if (breakpoint.entry < 0 || number >= functions_.size()) {
        return nullptr;
    }
    const Function& function = functions_[number];
    return &breakpoint == function.trap && function.has_jump ? &function : nullptr;
}

void PatchedFunctions::look() {
    if (step_ != Step::none) {
        barrier_.look();
    }
    if (waits_for_proof_) {
        proof_.look();
        waits_for_proof_ = !proof_.is_done();
    }
    advance();
}

void PatchedFunctions::look_at(Tid tid) {
    if (waits_for_proof_) {
        proof_.look_at(tid);
    }
}

void PatchedFunctions::begin_barrier(Step step) {
    step_ = step;
    barrier_.begin(is_leaving_);
}

// One barrier at a time: what comes while one is under way waits for the next.
void PatchedFunctions::advance() {
    while ((is_leaving_ && step_ == Step::none) || barrier_.is_over()) {
        Result<void> done = is_leaving_ ? Result<void>() : barrier_.result();
        switch (step_) {
        case Step::none:
            if (is_leaving_ || (!any_new_ && !take_waiting_gates())) {
                return;
            }
            any_new_ = false;
            begin_barrier(Step::breakpoints);
            continue;
        case Step::breakpoints:
            if (any_new_) {
                step_ = Step::none;
                continue;
            }
            if (done && waits_for_proof_) {
                return;
            }
            proof_.forget();
            done = done ? prepare_jumps() : std::move(done);
            begin_barrier(Step::behind);
            break;
        case Step::behind:
            step_ = Step::none;
            done = done ? complete_jumps() : std::move(done);
            break;
        case Step::back:
            breakpoints_.restore_behind_withdrawn();
            begin_barrier(Step::original);
            continue;
        case Step::original:
            step_ = Step::none;
            breakpoints_.end_withdrawal();
            return;
        }
        if (!done) {
            give_up(done.error());
            return;
        }
    }
}

Result<void> PatchedFunctions::prepare_jumps() {
    std::vector<BreakpointTable::Jump> jumps;
    for (Function* function : all()) {
        if (function->entry != nullptr && function->entry->inserted && !function->has_jump) {
            function->is_prepared = true;
            jumps.push_back({function->entry, function->thunk});
        }
    }
    return breakpoints_.prepare_jumps(jumps);
}

Result<void> PatchedFunctions::complete_jumps() {
    std::vector<Breakpoint*> jumps;
    for (const Function* function : all()) {
        if (function->is_prepared) {
            jumps.push_back(function->entry);
        }
    }
    memory_.enable();
    auto put = breakpoints_.complete_jumps(jumps);
    for (Function* function : all()) {
        function->has_jump = function->has_jump || (put && function->is_prepared);
        function->is_prepared = false;
    }
    const auto gates = std::count_if(gates_.begin(), gates_.end(),
                                     [](const Function& gate) { return gate.has_jump; });
    log_debug("{} functions are watched without stops; sigaction (at {} places) stops for SIGTRAP "
              "only",
              std::count_if(functions_.begin(), functions_.end(),
                            [](const Function& function) { return function.has_jump; }),
              gates);
    return put;
}

void PatchedFunctions::give_up(const Error& error) {
    tell_why_all_stop(error);
    gave_up_ = true;
    withdraw_jumps();
}

void PatchedFunctions::begin_withdrawal() {
    if (is_leaving_) {
        return;
    }
    is_leaving_ = true;
    const auto functions = all();
    const bool has_any = step_ == Step::behind ||
                         std::any_of(functions.begin(), functions.end(),
                                     [](const Function* function) { return function->has_jump; });
    step_ = Step::none;
    if (has_any) {
        for (Function* function : functions) {
            function->has_jump = function->is_prepared = false;
        }
        breakpoints_.begin_withdrawal();
        begin_barrier(Step::back);
        advance();
    }
}

void PatchedFunctions::withdraw_jumps() {
    step_ = Step::none;
    breakpoints_.withdraw_jumps();
    for (Function* function : all()) {
        function->has_jump = function->is_prepared = false;
    }
}

void PatchedFunctions::forget(AddrRange range) {
    const auto is_gone = [&](const Function& function) {
        const bool is_in =
            function.entry != nullptr && range.contains(function.entry->address().value());
        if (is_in) {
            const std::uint64_t trap = function.trap->address().value();
            breakpoints_.forget({trap, trap + 1});
        }
        return is_in;
    };
    for (Function& function : functions_) {
        if (is_gone(function)) {
            function = {};
        }
    }
    std::erase_if(gates_, is_gone);
    std::erase_if(waiting_gates_, is_gone);
}

void PatchedFunctions::reset() {
    proof_.forget();
    functions_.clear();
    gates_.clear();
    waiting_gates_.clear();
    answer_.reset();
    waits_for_proof_ = gave_up_ = any_new_ = false;
    step_ = Step::none;
}

} // namespace memleax

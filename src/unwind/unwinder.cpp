// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/unwind/unwinder.hpp"

#include <optional>

#include "module_rules.hpp"
#include "stack_copy.hpp"
#include "walker.hpp"

namespace memleax {

struct Unwinder::Impl {
    ModuleRules rules;
    Walker walker;
    StackCopy copy;
    std::optional<Walker> copy_walker; ///< since somebody needs it
    std::uint64_t signature_mask = 0;
    Statistics statistics; ///< of the last time that somebody asked

    Impl(const ModuleMap& modules, MemoryReader& memory)
        : rules(modules, memory), walker(rules, memory) {}

    void forget() {
        walker.forget();
        if (copy_walker) {
            copy_walker->forget();
        }
    }
};

Unwinder::Unwinder(const ModuleMap& modules, MemoryReader& memory)
    : impl_(std::make_unique<Impl>(modules, memory)) {}

Unwinder::~Unwinder() = default;

void Unwinder::unwind(const arch::Registers& regs, unsigned limit, UnwoundStack* out) {
    impl_->walker.walk(regs, Walker::From::any_instruction, limit, out);
}

void Unwinder::unwind_at_entry(const arch::Registers& regs, unsigned limit, UnwoundStack* out) {
    impl_->walker.walk(regs, Walker::From::function_entry, limit, out);
}

void Unwinder::unwind_copy(const arch::Registers& regs, std::span<const std::byte> stack,
                           unsigned limit, UnwoundStack* out) {
    if (!impl_->copy_walker) {
        impl_->copy_walker.emplace(impl_->rules, impl_->copy);
        impl_->copy_walker->set_signature_mask(impl_->signature_mask);
    }
    impl_->copy.set(arch::sp(regs), stack);
    impl_->copy_walker->walk(regs, Walker::From::any_instruction, limit, out);
    impl_->copy.set(RemoteAddr(), {});
    if (out->end == StackEnd::bad_memory) {
        out->end = StackEnd::copy_end;
    }
}

void Unwinder::set_signature_mask(std::uint64_t mask) {
    impl_->signature_mask = mask;
    impl_->walker.set_signature_mask(mask);
    if (impl_->copy_walker) {
        impl_->copy_walker->set_signature_mask(mask);
    }
}

Rule Unwinder::rule(FrameAddress frame) {
    return impl_->walker.rule_for(frame);
}

void Unwinder::add_own_return_place(CodeAddr place) {
    impl_->rules.add_own_return_place(place);
    impl_->forget();
}

void Unwinder::forget_own_return_places() {
    impl_->rules.forget_own_return_places();
    impl_->forget();
}

void Unwinder::modules_changed() {
    impl_->forget();
    impl_->rules.modules_changed();
}

const Unwinder::Statistics& Unwinder::statistics() const {
    impl_->statistics = impl_->walker.statistics();
    return impl_->statistics;
}

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/unwind/unwinder.hpp"

#include "module_rules.hpp"
#include "walker.hpp"

namespace memleax {

struct Unwinder::Impl {
    ModuleRules rules;
    Walker walker;
    Statistics statistics; ///< of the last time that somebody asked

    Impl(const ModuleMap& modules, MemoryReader& memory)
        : rules(modules, memory), walker(rules, memory) {}
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

void Unwinder::set_signature_mask(std::uint64_t mask) {
    impl_->walker.set_signature_mask(mask);
}

Rule Unwinder::rule(FrameAddress frame) {
    return impl_->walker.rule_for(frame);
}

void Unwinder::add_own_return_place(CodeAddr place) {
    impl_->rules.add_own_return_place(place);
    impl_->walker.forget();
}

void Unwinder::forget_own_return_places() {
    impl_->rules.forget_own_return_places();
    impl_->walker.forget();
}

void Unwinder::modules_changed() {
    impl_->walker.forget();
    impl_->rules.modules_changed();
}

const Unwinder::Statistics& Unwinder::statistics() const {
    impl_->statistics = impl_->walker.statistics();
    return impl_->statistics;
}

} // namespace memleax

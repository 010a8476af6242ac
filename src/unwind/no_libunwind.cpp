// SPDX-License-Identifier: GPL-3.0-or-later
// LibunwindWalker in a build without libunwind.
#ifdef MEMLEAX_WHY_WITHOUT_LIBUNWIND
#include "memleax/unwind/libunwind_walker.hpp"

namespace memleax {

struct LibunwindWalker::Impl {};

LibunwindWalker::LibunwindWalker(const ModuleMap& /*modules*/, MemoryReader& /*memory*/) {}

LibunwindWalker::~LibunwindWalker() = default;

const char* LibunwindWalker::reason_against() {
    return MEMLEAX_WHY_WITHOUT_LIBUNWIND;
}

void LibunwindWalker::unwind(const arch::Registers& regs, unsigned limit, UnwoundStack* out) {
    *out = UnwoundStack{.frames = {}, .end = StackEnd::limit};
    if (limit > 0) {
        out->frames.push_back(FrameAddress::exact(arch::pc(regs)));
        out->end = StackEnd::no_rule;
    }
}

void LibunwindWalker::unwind_at_entry(const arch::Registers& regs, unsigned limit,
                                      UnwoundStack* out) {
    unwind(regs, limit, out);
}

void LibunwindWalker::set_signature_mask(std::uint64_t /*mask*/) {}

void LibunwindWalker::modules_changed() {}

} // namespace memleax

#endif

// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/own_code.hpp"

#include <algorithm>

namespace memleax {

namespace {

bool contains(const std::vector<AddrRange>& ranges, CodeAddr pc) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [pc](const AddrRange& range) { return range.contains(pc.value()); });
}

} // namespace

std::vector<AddrRange> OwnCodes::ranges() const {
    std::vector<AddrRange> result;
    for (const OwnCode* part : parts_) {
        const auto ranges = part->ranges();
        result.insert(result.end(), ranges.begin(), ranges.end());
    }
    return result;
}

bool OwnCodes::contains(CodeAddr pc) const {
    return memleax::contains(ranges(), pc);
}

bool OwnCodes::move_out(arch::Registers* regs, bool* changed) const {
    const CodeAddr pc = arch::pc(*regs);
    for (const OwnCode* part : parts_) {
        if (memleax::contains(part->ranges(), pc)) {
            const bool is_out = part->move_out(regs);
            *changed = arch::pc(*regs) != pc;
            return is_out;
        }
    }
    *changed = false;
    return true;
}

Result<void> OwnCodes::unmap(Tid worker) {
    for (OwnCode* part : parts_) {
        if (auto unmapped = part->unmap(worker); !unmapped) {
            return unmapped;
        }
    }
    return {};
}

} // namespace memleax

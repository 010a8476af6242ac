// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/own_code.hpp"

#include <algorithm>

namespace memleax {

std::vector<AddrRange> OwnCodes::ranges() const {
    std::vector<AddrRange> result;
    for (const OwnCode* part : parts_) {
        const auto ranges = part->ranges();
        result.insert(result.end(), ranges.begin(), ranges.end());
    }
    return result;
}

std::vector<AddrRange> OwnCodes::data_ranges() const {
    std::vector<AddrRange> result;
    for (const OwnCode* part : parts_) {
        const auto ranges = part->data_ranges();
        result.insert(result.end(), ranges.begin(), ranges.end());
    }
    return result;
}

std::vector<AddrRange> OwnCodes::outside(AddrRange range) const {
    std::vector<AddrRange> own = ranges();
    std::ranges::sort(own, {}, &AddrRange::begin);
    std::vector<AddrRange> result;
    for (const AddrRange& each : own) {
        if (each.overlaps(range)) {
            if (range.begin < each.begin) {
                result.push_back({range.begin, each.begin});
            }
            range.begin = std::min(each.end, range.end);
        }
    }
    if (!range.empty()) {
        result.push_back(range);
    }
    return result;
}

bool OwnCodes::will_be_back(Tid tid, RemoteAddr sp) const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [tid, sp](const OwnCode* part) { return part->will_be_back(tid, sp); });
}

bool OwnCodes::may_be_back(Tid tid, RemoteAddr sp) const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [tid, sp](const OwnCode* part) { return part->may_be_back(tid, sp); });
}

std::set<Tid> OwnCodes::inside() const {
    std::set<Tid> result;
    for (const OwnCode* part : parts_) {
        result.merge(part->inside());
    }
    return result;
}

bool OwnCodes::contains(CodeAddr pc) const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [pc](const OwnCode* part) { return part->contains(pc); });
}

MoveOut OwnCodes::move_out(arch::Registers* regs) const {
    const CodeAddr pc = arch::pc(*regs);
    for (const OwnCode* part : parts_) {
        if (part->contains(pc)) {
            return part->move_out(regs) ? MoveOut::moved : MoveOut::must_run_on;
        }
    }
    return MoveOut::outside;
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

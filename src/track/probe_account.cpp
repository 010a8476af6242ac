// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/probe_account.hpp"

namespace memleax {

std::size_t ProbeAccount::find_or_add(std::string_view name) {
    const auto [known, is_new] = by_name_.try_emplace(std::string(name), probes_.size());
    if (is_new) {
        probes_.emplace_back().name = name;
        index_.emplace_back();
    }
    return known->second;
}

void ProbeAccount::on_hit(const ProbeHit& hit) {
    const std::size_t number = find_or_add(hit.name);
    ProbeCalls& probe = probes_[number];
    Index& index = index_[number];
    ++probe.calls;
    const auto [stack, is_new] = index.stacks.try_emplace(hit.stack, probe.stacks.size());
    if (is_new) {
        probe.stacks.push_back({hit.stack});
    }
    ++probe.stacks[stack->second].calls;
    if (!hit.first_argument) {
        return;
    }
    const auto known = index.arguments.find(*hit.first_argument);
    if (known != index.arguments.end()) {
        ++probe.arguments[known->second].calls;
    } else if (probe.arguments.size() == kMostArguments) {
        ++probe.other_arguments;
    } else {
        index.arguments.emplace(*hit.first_argument, probe.arguments.size());
        probe.arguments.push_back({*hit.first_argument, 1});
    }
}

} // namespace memleax

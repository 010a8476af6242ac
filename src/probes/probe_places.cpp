// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/probes/probe_places.hpp"

#include <algorithm>

#include "memleax/base/log.hpp"

namespace memleax {

namespace {

/// Variables have their addresses in place of their names.
std::vector<ProbeArgument> arguments_in(const Module& module, const SdtProbe& probe) {
    std::vector<ProbeArgument> arguments = parse_probe_arguments(probe.arguments);
    for (ProbeArgument& argument : arguments) {
        if (!argument.operand || argument.operand->symbol.empty()) {
            continue;
        }
        arch::ProbeOperand& operand = *argument.operand;
        const auto variable = module.image->find_variable(operand.symbol);
        if (!variable) {
            argument.operand.reset();
            continue;
        }
        operand.symbol.clear();
        operand.value += static_cast<std::int64_t>(variable->address.value() + module.load_bias);
    }
    return arguments;
}

} // namespace

void ProbePoints::add_function(const ElfSymbol& symbol) {
    const bool is_known = std::ranges::any_of(functions, [&symbol](const Function& each) {
        return each.address == symbol.address && each.name == symbol.name;
    });
    if (!is_known) {
        functions.push_back({std::string(symbol.name), symbol.address, symbol.indirect});
    }
}

void ProbePoints::add_sdt(const ElfImage& image, const ProbeRequests& requests) {
    if (!requests.any_sdt()) {
        return;
    }
    for (SdtProbe& probe : read_sdt_probes(image.handle())) {
        if (!requests.wants(probe)) {
            continue;
        }
        if (!probe.is_sound) {
            log_warning("{}: the note of {} is wrong, and is passed over", image.name(),
                        probe.full_name());
            continue;
        }
        sdt.push_back(std::move(probe));
    }
}

std::vector<ProbePlace> ProbePoints::places(const Module& module) const {
    std::vector<ProbePlace> result;
    for (const SdtProbe& probe : sdt) {
        ProbePlace place{.name = probe.full_name(),
                         .address = module.to_runtime(probe.address),
                         .is_function = false,
                         .semaphore = {},
                         .arguments = arguments_in(module, probe)};
        if (probe.semaphore) {
            place.semaphore = RemoteAddr(probe.semaphore->value() + module.load_bias);
        }
        result.push_back(std::move(place));
    }
    for (const Function& function : functions) {
        if (!function.indirect) {
            result.push_back({.name = function.name,
                              .address = module.to_runtime(function.address),
                              .is_function = true,
                              .semaphore = {},
                              .arguments = {}});
        }
    }
    return result;
}

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
#include "process_environment.hpp"

#include "memleax/allocators/allocator_search.hpp"

namespace memleax {

bool ProcessEnvironment::in_same_module(CodeAddr a, CodeAddr b) {
    const Module* module = modules_.find(a);
    return module != nullptr && module == modules_.find(b);
}

bool ProcessEnvironment::in_main_module(CodeAddr code) {
    const Module* module = modules_.find(code);
    return module != nullptr && module == modules_.main();
}

bool ProcessEnvironment::makes_exception(CodeAddr code) {
    const Module* module = modules_.find(code);
    return module != nullptr && memleax::makes_exception(*module, module->to_elf(code));
}

bool ProcessEnvironment::frees_cached_blocks(CodeAddr code) {
    const Module* module = modules_.find(code);
    return module != nullptr && memleax::frees_cached_blocks(*module, module->to_elf(code));
}

std::optional<RemoteAddr> ProcessEnvironment::find_variable(CodeAddr code, const char* name) {
    const Module* module = modules_.find(code);
    const auto variable =
        module != nullptr && module->image ? module->image->find_variable(name) : std::nullopt;
    return variable ? std::optional(module->to_runtime(variable->address).as_data()) : std::nullopt;
}

AddrRange ProcessEnvironment::mapping_at(RemoteAddr begin) {
    if (const auto maps = read_maps(target_.pid())) {
        for (const Mapping& mapping : *maps) {
            if (mapping.range.begin == begin.value()) {
                return mapping.range;
            }
        }
    }
    return {}; // unmapped by another thread already
}

void ProcessEnvironment::set_first_mappings(const std::vector<Mapping>& mappings) {
    new_heap_ = {};
    heap_seen_.reset();
    for (const Mapping& mapping : mappings) {
        if (mapping.path == "[heap]") {
            new_heap_ = {mapping.range.end, mapping.range.end};
        }
    }
}

bool ProcessEnvironment::in_new_heap(RemoteAddr address, MonotonicNs now) {
    constexpr std::int64_t kLookAgainNs = 1'000'000; // reading the mappings takes a twentieth
    if (address.value() >= new_heap_.end &&
        (!heap_seen_ || now.value() - heap_seen_->value() > kLookAgainNs)) {
        heap_seen_ = now;
        look_at_heap();
    }
    return new_heap_.contains(address);
}

void ProcessEnvironment::look_at_heap() {
    const auto mappings = read_maps(target_.pid());
    for (const Mapping& mapping : mappings ? *mappings : std::vector<Mapping>()) {
        if (mapping.path == "[heap]" && mapping.range.end > new_heap_.begin) {
            if (new_heap_.begin == 0) { // there was none
                new_heap_.begin = mapping.range.begin;
            }
            new_heap_.end = mapping.range.end;
        }
    }
}

} // namespace memleax

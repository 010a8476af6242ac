// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/allocators/allocator_api.hpp"

#include <algorithm>
#include <limits>

#include "arch.hpp"

namespace memleax {

namespace {

/// Where a resource's address has its family.
constexpr unsigned kFamilyShift = 56;

} // namespace

AllocatorApi::AllocatorApi() {
    add_prefix("");
    const std::size_t operators = groups_++;
    for (const AllocatorFunction& function : cxx_operators()) {
        add_known(function, "", operators);
    }
    for (const PrefixedAllocator& allocator : prefixed_allocators()) {
        add_prefix(allocator.prefix);
        for (const AllocatorFunction& function : allocator.more) {
            add_known(function, allocator.prefix, groups_ - 1);
        }
    }
}

void AllocatorApi::add_prefix(const std::string& prefix) {
    const std::size_t group = groups_++;
    for (const AllocatorFunction& function : malloc_functions()) {
        add_known(function, prefix, group);
    }
}

void AllocatorApi::add_known(const AllocatorFunction& function, const std::string& prefix,
                             std::size_t group) {
    AllocatorFunction& added = functions_.emplace_back(function);
    added.name = prefix + function.name;
    if (!function.nothrow_twin.empty()) {
        added.nothrow_twin = prefix + function.nothrow_twin;
    }
    added.group = group;
    by_name_.try_emplace(added.name, &added);
    filter_.add(added.name);
}

void AllocatorApi::add(AllocatorFunction function) {
    const AllocatorFunction& added = functions_.emplace_back(std::move(function));
    // Not assigned: the key must not be a name that goes by another function.
    by_name_.erase(added.name);
    by_name_.emplace(added.name, &added);
    filter_.add(added.name);
}

void AllocatorApi::track(TrackedMemory kinds) {
    if (kinds.any_mapped() && !tracked_.any_mapped()) {
        const std::size_t group = groups_++;
        for (const AllocatorFunction& function : mapping_functions()) {
            add_known(function, "", group);
        }
    }
    tracked_ = kinds;
}

bool AllocatorApi::add_probe(const std::string& text) {
    const bool added = probes_.add(text);
    if (added && text.find(':') == std::string::npos) {
        filter_.add(text);
    }
    return added;
}

bool AllocatorApi::traps(const AllocatorFunction& function) const {
    switch (function.mapping) {
    case MappingCall::none:
        return tracked_.heap || function.family != kMemory;
    case MappingCall::mmap: // any of these may end a range of another kind
    case MappingCall::munmap:
    case MappingCall::mremap:
        return tracked_.any_mapped();
    case MappingCall::brk:
    case MappingCall::sbrk:
        return tracked_.brk;
    case MappingCall::shmat:
    case MappingCall::shmdt:
        return tracked_.shm;
    case MappingCall::madvise:
        return tracked_.still_there();
    case MappingCall::thread_start:
        break;
    }
    return false;
}

AllocatorFamily AllocatorApi::resource_family(const std::string& acquire,
                                              const std::string& release) {
    for (const std::string& name : {acquire, release}) {
        const AllocatorFunction* function = find(name);
        if (function != nullptr && function->family != kMemory) {
            return function->family;
        }
    }
    return families_++;
}

const AllocatorFunction* AllocatorApi::find(std::string_view name) const {
    const auto it = by_name_.find(name);
    return it != by_name_.end() ? it->second : nullptr;
}

std::vector<const AllocatorFunction*> AllocatorApi::of_user() const {
    std::vector<const AllocatorFunction*> result;
    for (const AllocatorFunction& function : functions_) {
        if (!function.origin.empty() && find(function.name) == &function) {
            result.push_back(&function);
        }
    }
    return result;
}

std::uint64_t requested_size(const AllocatorFunction& function, const CallArguments& arguments) {
    if (function.size_argument < 0) {
        return 0;
    }
    const std::uint64_t size = arguments.at(static_cast<std::size_t>(function.size_argument));
    if (function.count_argument < 0) {
        return size;
    }
    const std::uint64_t count = arguments.at(static_cast<std::size_t>(function.count_argument));
    std::uint64_t product = 0;
    return __builtin_mul_overflow(size, count, &product) ? std::numeric_limits<std::uint64_t>::max()
                                                         : product;
}

RemoteAddr handle_address(const AllocatorFunction& function, std::uint64_t value) {
    if (function.is_descriptor) {
        value = static_cast<std::uint32_t>(value); // an int: the other half is anything
    } else {
        value = arch::data_address(value).value();
    }
    return RemoteAddr(value | std::uint64_t{function.family} << kFamilyShift);
}

bool is_no_handle(const AllocatorFunction& function, std::uint64_t value) {
    return function.is_descriptor ? static_cast<std::int32_t>(value) < 0
                                  : arch::data_address(value).value() == 0;
}

} // namespace memleax

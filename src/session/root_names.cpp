// SPDX-License-Identifier: GPL-3.0-or-later
#include "root_names.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "thread_area.hpp"

namespace memleax {

std::string RootNames::Name::text() const {
    return where.empty() ? group : fmt::format("{}, {}", group, where);
}

std::string RootNames::Name::text_with_offset() const {
    const std::string at = has_offset && offset != 0 ? fmt::format("+{}", offset) : "";
    return where.empty() ? group + at : fmt::format("{}{}, {}", group, at, where);
}

RootNames::Name RootNames::name(std::uint64_t root) {
    const RootPlace& place = snapshot_.graph.details.root_places[root];
    Name name;
    switch (place.kind) {
    case RootPlace::Kind::registers:
        name.group = fmt::format("registers of thread {}", place.tid.value());
        name.is_last = true;
        break;
    case RootPlace::Kind::thread:
        name.group = place.tid.value() != 0
                         ? fmt::format("thread-local storage of thread {}", place.tid.value())
                         : "thread-local storage of a thread that has ended";
        break;
    case RootPlace::Kind::kernel:
        name.group = "the kernel (epoll or a timer)";
        break;
    case RootPlace::Kind::memory:
        return name_memory(place.address);
    }
    return name;
}

RootNames::Name RootNames::name_memory(RemoteAddr address) {
    // On one side of the thread pointer is static TLS, on the other what libc keeps for the thread.
    constexpr std::uint64_t kControlBlock = 4096;
    constexpr std::uint64_t kMostTls = 65536;
    constexpr std::uint64_t kBelow = arch::kTlsIsAbovePointer ? kControlBlock : kMostTls;
    constexpr std::uint64_t kAbove = arch::kTlsIsAbovePointer ? kMostTls : kControlBlock;
    Name name;
    const auto& mappings = snapshot_.mappings;
    const auto after = std::upper_bound(
        mappings.begin(), mappings.end(), address.value(),
        [](std::uint64_t at, const Mapping& each) { return at < each.range.begin; });
    const auto mapping = after != mappings.begin() && std::prev(after)->range.contains(address)
                             ? std::prev(after)
                             : mappings.end();
    for (const HeapThread& thread : snapshot_.thread_list) {
        const std::uint64_t pointer = thread.thread_pointer.value();
        const bool has_stack = mapping != mappings.end() && mapping->range.contains(thread.sp);
        const bool near_pointer = pointer != 0 && address.value() + kBelow >= pointer &&
                                  address.value() < pointer + kAbove && mapping != mappings.end() &&
                                  mapping->range.contains(thread.thread_pointer);
        if (has_stack && near_pointer) { // where one ends and the other begins is not known
            name.group =
                fmt::format("stack or thread-local storage of thread {}", thread.tid.value());
            name.is_last = address.value() < pointer - std::min(pointer, kControlBlock);
            return name;
        }
        if (near_pointer) {
            name.group = fmt::format("thread-local storage of thread {}", thread.tid.value());
            return name;
        }
        if (has_stack) {
            name.group = fmt::format("stack of thread {}", thread.tid.value());
            name.is_last = true;
            return name;
        }
    }
    if (const auto variable = names_.find_variable(address)) {
        if (variable->name.empty()) {
            name.group = "data of " + variable->module;
            return name;
        }
        name.group = variable->name;
        name.where = variable->file.empty() ? variable->module : variable->file;
        name.offset = static_cast<std::uint64_t>(address - variable->start);
        name.has_offset = true;
        return name;
    }
    if (mapping == mappings.end()) {
        name.group = "memory";
        return name;
    }
    // Where the heap is not listed, that is full of old pointers, too.
    name.is_last = !snapshot_.unlisted.empty() && !mapping->shared &&
                   (mapping->path.empty() || mapping->path == "[heap]");
    if (mapping->path.empty()) {
        name.group = fmt::format("the {}mapping at {:#x}", mapping->shared ? "shared " : "",
                                 mapping->range.begin);
    } else {
        name.group = "the mapping of " + mapping->path;
    }
    return name;
}

} // namespace memleax

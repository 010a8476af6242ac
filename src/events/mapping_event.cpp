// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/events/mapping_event.hpp"

namespace memleax {

const char* describe(MemoryKind kind) {
    switch (kind) {
    case MemoryKind::heap:
        return "heap";
    case MemoryKind::mmap:
        return "mmap";
    case MemoryKind::brk:
        return "brk";
    case MemoryKind::shm:
        return "shm";
    case MemoryKind::allocator:
        return "allocator";
    case MemoryKind::thread_stack:
        return "thread-stack";
    }
    return "?";
}

const char* describe(MappingCall call) {
    switch (call) {
    case MappingCall::none:
    case MappingCall::thread_start:
        break;
    case MappingCall::mmap:
        return "mmap";
    case MappingCall::munmap:
        return "munmap";
    case MappingCall::mremap:
        return "mremap";
    case MappingCall::brk:
        return "brk";
    case MappingCall::sbrk:
        return "sbrk";
    case MappingCall::shmat:
        return "shmat";
    case MappingCall::shmdt:
        return "shmdt";
    case MappingCall::madvise:
        return "madvise";
    }
    return "?";
}

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
// The names by which allocators are known, and their arguments.
#include "memleax/allocators/allocator_api.hpp"

namespace memleax {

namespace {

AllocatorFunction allocate(const char* name, int size, int count = -1, int out = -1) {
    return {.name = name,
            .call = AllocatorCall::allocate,
            .size_argument = size,
            .count_argument = count,
            .out_argument = out};
}

AllocatorFunction allocate_or_throw(const char* name, int size, int count = -1) {
    AllocatorFunction function = allocate(name, size, count);
    function.throws = true;
    return function;
}

/// One whose twin has `suffix` to its name, and nothrow_t as that argument (-1: it has none).
AllocatorFunction with_twin(AllocatorFunction function, const char* suffix, int nothrow_argument) {
    function.nothrow_twin = function.name + suffix;
    function.nothrow_argument = nothrow_argument;
    return function;
}

AllocatorFunction reallocate(const char* name, int pointer, int size, int count = -1) {
    return {.name = name,
            .call = AllocatorCall::realloc,
            .pointer_argument = pointer,
            .size_argument = size,
            .count_argument = count};
}

AllocatorFunction release(const char* name) {
    return {.name = name, .call = AllocatorCall::free, .pointer_argument = 0};
}

std::vector<AllocatorFunction> all_by(AllocatedBy by, std::vector<AllocatorFunction> functions) {
    for (AllocatorFunction& function : functions) {
        function.by = by;
    }
    return functions;
}

AllocatedBy operator_of(const std::string& name) {
    const bool is_array = name.starts_with("_Zna") || name.starts_with("_Zda");
    return is_array ? AllocatedBy::array_new : AllocatedBy::operator_new;
}

} // namespace

// malloc(3), posix_memalign(3), reallocarray(3); C23's sized frees; jemalloc(3)'s *allocx, which it
// has with and without a prefix; BSD's reallocf.
std::vector<AllocatorFunction> malloc_functions() {
    return all_by(AllocatedBy::c, {
                                      release("free"),
                                      release("cfree"),
                                      release("free_sized"),
                                      release("free_aligned_sized"),
                                      release("dallocx"),
                                      release("sdallocx"),
                                      reallocate("realloc", 0, 1),
                                      reallocate("reallocarray", 0, 2, 1),
                                      reallocate("reallocf", 0, 1),
                                      reallocate("rallocx", 0, 1),
                                      allocate("malloc", 0),
                                      allocate("calloc", 1, 0),
                                      allocate("memalign", 1),
                                      allocate("aligned_alloc", 1),
                                      allocate("posix_memalign", 2, -1, 0),
                                      allocate("valloc", 0),
                                      allocate("pvalloc", 0),
                                      allocate("mallocx", 0),
                                  });
}

std::vector<AllocatorFunction> mapping_functions() {
    static constexpr std::pair<const char*, MappingCall> kFunctions[] = {
        {"mmap", MappingCall::mmap},       {"mmap64", MappingCall::mmap},
        {"mremap", MappingCall::mremap},   {"munmap", MappingCall::munmap},
        {"brk", MappingCall::brk},         {"sbrk", MappingCall::sbrk},
        {"shmat", MappingCall::shmat},     {"shmdt", MappingCall::shmdt},
        {"madvise", MappingCall::madvise}, {"pthread_create", MappingCall::thread_start}};
    std::vector<AllocatorFunction> functions;
    for (const auto& [name, mapping] : kFunctions) {
        const bool ends = mapping == MappingCall::munmap || mapping == MappingCall::shmdt;
        functions.push_back({.name = name,
                             .call = ends ? AllocatorCall::free : AllocatorCall::allocate,
                             .mapping = mapping});
    }
    return functions;
}

std::vector<AllocatorFunction> cxx_operators() {
    // w: new, a: new[]; l: delete, a: delete[]; m: the size.
    std::vector<AllocatorFunction> operators;
    constexpr const char* kNothrow = "RKSt9nothrow_t";
    for (const char* name : {"_Znwm", "_Znam"}) {
        operators.push_back(with_twin(allocate_or_throw(name, 0), kNothrow, 1));
    }
    for (const char* name : {"_ZnwmSt11align_val_t", "_ZnamSt11align_val_t"}) {
        operators.push_back(with_twin(allocate_or_throw(name, 0), kNothrow, 2));
    }
    for (const char* name :
         {"_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_tRKSt9nothrow_t",
          "_ZnamSt11align_val_tRKSt9nothrow_t"}) {
        operators.push_back(allocate(name, 0));
    }
    for (const char* name :
         {"_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvSt11align_val_t",
          "_ZdaPvSt11align_val_t", "_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t",
          "_ZdlPvRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t", "_ZdlPvSt11align_val_tRKSt9nothrow_t",
          "_ZdaPvSt11align_val_tRKSt9nothrow_t"}) {
        operators.push_back(release(name));
    }
    for (AllocatorFunction& function : operators) {
        function.by = operator_of(function.name);
        // To a multiple of the alignment, as aligned_alloc wants it (libstdc++'s new_opa.cc).
        function.may_round_up = function.call == AllocatorCall::allocate &&
                                function.name.find("St11align_val_t") != std::string::npos;
    }
    return operators;
}

std::vector<PrefixedAllocator> prefixed_allocators() {
    return {
        {"je_", {}},    // jemalloc
        {"_rjem_", {}}, // Rust's jemallocator
        {"dl", {}},     // Doug Lea's malloc
        {"ned", {}},    // nedmalloc
        // mimalloc.h. Not mi_heap_*: mi_heap_destroy ends all blocks of a heap at once.
        {"mi_",
         {allocate("zalloc", 0),
          allocate("malloc_small", 0),
          allocate("zalloc_small", 0),
          allocate("mallocn", 1, 0),
          allocate("malloc_aligned", 0),
          allocate("zalloc_aligned", 0),
          allocate("calloc_aligned", 1, 0),
          with_twin(allocate_or_throw("new", 0), "_nothrow", -1),
          with_twin(allocate_or_throw("new_aligned", 0), "_nothrow", -1),
          allocate("new_nothrow", 0),
          allocate("new_aligned_nothrow", 0),
          allocate_or_throw("new_n", 1, 0),
          reallocate("reallocn", 0, 2, 1),
          reallocate("rezalloc", 0, 1),
          reallocate("recalloc", 0, 2, 1),
          reallocate("realloc_aligned", 0, 1),
          reallocate("rezalloc_aligned", 0, 1),
          reallocate("recalloc_aligned", 0, 2, 1),
          reallocate("new_realloc", 0, 1),
          reallocate("new_reallocn", 0, 2, 1),
          release("free_size"),
          release("free_size_aligned"),
          release("free_aligned")}},
        // gperftools' tcmalloc.h
        {"tc_",
         {allocate("malloc_skip_new_handler", 0),
          with_twin(allocate_or_throw("new", 0), "_nothrow", 1),
          with_twin(allocate_or_throw("newarray", 0), "_nothrow", 1),
          allocate("new_nothrow", 0),
          allocate("newarray_nothrow", 0),
          with_twin(allocate_or_throw("new_aligned", 0), "_nothrow", 2),
          with_twin(allocate_or_throw("newarray_aligned", 0), "_nothrow", 2),
          allocate("new_aligned_nothrow", 0),
          allocate("newarray_aligned_nothrow", 0),
          release("delete"),
          release("deletearray"),
          release("delete_nothrow"),
          release("deletearray_nothrow"),
          release("delete_sized"),
          release("deletearray_sized"),
          release("delete_aligned"),
          release("deletearray_aligned"),
          release("delete_sized_aligned"),
          release("deletearray_sized_aligned"),
          release("delete_aligned_nothrow"),
          release("deletearray_aligned_nothrow")}},
        // rpmalloc.h
        {"rp", {allocate("aligned_calloc", 2, 1), reallocate("aligned_realloc", 0, 2)}},
        // oneTBB's scalable_allocator.h
        {"scalable_",
         {allocate("aligned_malloc", 0), reallocate("aligned_realloc", 0, 1),
          release("aligned_free")}},
    };
}

} // namespace memleax

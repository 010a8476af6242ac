// SPDX-License-Identifier: GPL-3.0-or-later
// Which module has malloc, and whose is it?
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "glibc_books.hpp"
#include "glibc_layout.hpp"
#include "glibc_places.hpp"
#include "heap_books.hpp"
#include "mallocng_books.hpp"
#include "module_search.hpp"

namespace memleax {

namespace {

Result<std::unique_ptr<HeapAllocator>> make_mallocng(const Module& libc, bool is_static) {
    return make_heap_allocator(Mallocng{&libc, find_mallocng_code(libc, is_static)});
}

Result<std::unique_ptr<HeapAllocator>> find_in_program(const Module* program) {
    if (!may_be_static(program)) {
        return Error("the heap cannot be read: no shared C library of the process has a malloc "
                     "(its files cannot be read)");
    }
    if (const auto libc = find_static_glibc(*program)) {
        return make_heap_allocator(*libc);
    }
    if (has_mallocng(*program)) {
        return make_mallocng(*program, true);
    }
    return Error(fmt::format("the heap cannot be read: {} is linked statically, and its malloc is "
                             "neither that of glibc {} to {} nor musl's",
                             program->path, glibc::kVersions.front().number,
                             glibc::kVersions.back().number));
}

} // namespace

Result<std::unique_ptr<HeapAllocator>> find_heap_allocator(const ModuleMap& modules) {
    const Module* libc = nullptr;
    for (const auto& module : modules.all()) {
        if (module->unloaded || !exports(*module, "malloc")) {
            continue;
        }
        if (!is_glibc(*module) && !has_mallocng(*module)) {
            return Error(fmt::format("the heap cannot be read: malloc is neither glibc's nor "
                                     "musl's, but that of {}",
                                     module->path));
        }
        if (libc != nullptr) {
            return Error(fmt::format("the heap cannot be read: the process has two C libraries, {} "
                                     "and {}",
                                     libc->path, module->path));
        }
        libc = module.get();
    }
    if (libc == nullptr) {
        return find_in_program(modules.main());
    }
    if (const Module* program = modules.main();
        program != libc && may_be_static(program) &&
        (has_glibc_inside(*program) || has_mallocng(*program))) {
        // It has opened a library that needs libc.
        return Error(fmt::format("the heap cannot be read: {} is linked statically, and has {} "
                                 "besides",
                                 program->path, libc->path));
    }
    if (!is_glibc(*libc)) {
        return make_mallocng(*libc, false);
    }
    auto glibc = find_shared_glibc(*libc);
    if (!glibc) {
        return std::move(glibc).error();
    }
    return make_heap_allocator(*glibc);
}

} // namespace memleax

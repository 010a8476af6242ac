// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracked_look.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "block_index.hpp"
#include "block_words.hpp"
#include "glibc_places.hpp"
#include "jemalloc_books.hpp"
#include "mallocng_places.hpp"
#include "module_search.hpp"
#include "root_search.hpp"

namespace memleax {

namespace {

const ThreadBlock& thread_block_of(const ModuleMap& modules) {
    static constexpr ThreadBlock kUnknown;
    const Module* program = modules.main();
    if (may_be_static(program)) {
        return has_glibc_inside(*program) ? glibc::kThreadBlock : kUnknown;
    }
    bool has_musl = false;
    for (const auto& module : modules.all()) {
        if (!module->unloaded && is_glibc(*module)) {
            return glibc::kThreadBlock;
        }
        has_musl = has_musl || (!module->unloaded && has_mallocng(*module));
    }
    return has_musl ? musl::kThreadBlock : kUnknown;
}

/// Does a block begin or end in this memory, or contain it? Then it is not what it seems to be.
bool has_blocks(const HeapBlocks& blocks, const AddrRange& range) {
    const auto behind =
        std::partition_point(blocks.begin(), blocks.end(), [&range](const HeapBlock& block) {
            return block.address.value() < range.end;
        });
    return behind != blocks.begin() &&
           std::prev(behind)->address.value() + std::prev(behind)->size > range.begin;
}

} // namespace

KnownLibraries::KnownLibraries(const ModuleMap& modules)
    : thread_block(&thread_block_of(modules)), jemalloc(has_jemalloc(modules)) {}

Result<HeapMoment> take_tracked_moment(HeldProcess& process, const ModuleMap& modules,
                                       std::vector<AddrRange> own_memory, RoomForCopy* room) {
    if (auto readable = room->check_readable(process); !readable) {
        return std::move(readable).error();
    }
    return take_moment(process,
                       look_at_threads(process.target(), process.threads(), modules, {},
                                       ThreadFrames::not_asked_for),
                       std::move(own_memory), room);
}

HeapSnapshot look_at_tracked(HeapMoment moment, MemoryReader& readable, HeapBlocks blocks,
                             const KnownLibraries& libraries, const HeapOptions& options) {
    MemoryWithSharedParts memory(readable, moment.shared.get());
    HeapSnapshot snapshot;
    snapshot.time = moment.time;
    snapshot.threads = moment.threads.size();
    snapshot.graph.blocks = std::move(blocks);
    snapshot.graph.lacks_roots = moment.lacks_shared;
    const BlockIndex index(snapshot.graph.blocks, BlockIndex::Behind::spare);
    BlockContents contents(moment.mappings, options, &snapshot.graph);
    BlockWords words(index, snapshot.graph.blocks, &contents);
    RootSearch roots(memory, index, *moment.pages, *libraries.thread_block,
                     details_of(&snapshot.graph, options));
    roots.set_block_words(&words);
    roots.add_threads(moment.threads);
    roots.add_kernel_pointers(moment.kernel_pointers);
    std::vector<AddrRange> no_roots = std::move(moment.own_memory);
    if (libraries.jemalloc) {
        for (const AddrRange& range :
             find_jemalloc_books(memory, moment.mappings, *moment.pages, moment.threads)) {
            if (!has_blocks(snapshot.graph.blocks, range)) {
                no_roots.push_back(range);
            }
        }
    }
    std::sort(no_roots.begin(), no_roots.end(),
              [](const AddrRange& a, const AddrRange& b) { return a.begin < b.begin; });
    roots.add_memory(moment.mappings, no_roots, moment.threads);
    words.finish();
    snapshot.graph.roots = roots.take();
    snapshot.complete = true;
    if (options.details) {
        add_places(std::move(moment), &snapshot);
    }
    return snapshot;
}

} // namespace memleax

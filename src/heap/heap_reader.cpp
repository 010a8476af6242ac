// SPDX-License-Identifier: GPL-3.0-or-later
#include "heap_reader.hpp"

#include <algorithm>
#include <utility>

#include "block_contents.hpp"
#include "block_index.hpp"
#include "glibc_layout.hpp"
#include "memleax/proc/present_pages.hpp"
#include "root_search.hpp"
#include "stored_memory.hpp"
#include "word_window.hpp"

namespace memleax {

namespace {

using LastWord = BlockIndex::LastWord;

/// A chunk in a list of malloc's has two pointers side by side, to headers or bins, and both are
/// left when it is given out again. A pointer to a header of which the other is none is the
/// program's.
bool is_of_list(WordWindow& window, std::uint64_t at) {
    constexpr std::uint64_t kLowest = 1U << 16; // vm.mmap_min_addr
    const std::uint64_t side = at % glibc::kAlignment == 0 ? at + sizeof at : at - sizeof at;
    const std::uint64_t other = window.word(side).value_or(0);
    return other >= kLowest && other % glibc::kAlignment == 0;
}

/// What a word points to, of a block that ends at `end`.
std::optional<BlockLink> find_link(const BlockIndex& index, WordWindow& window, std::uint64_t at,
                                   std::uint64_t word, std::uint64_t end) {
    const auto link = index.find(word, LastWord::is_block);
    if (!link || !link->is_interior() || index.find(word)) {
        return link;
    }
    // The last word may link a list of the program's.
    const bool is_last = at + sizeof at == end;
    return is_last || !is_of_list(window, at) ? link : std::nullopt;
}

/// What has no page of the mappings that the allocator's memory, which ascends, lies in. It is
/// zero, and to read it would make pages.
std::vector<AddrRange> absent_parts(const PresentPages& pages, std::span<const Mapping> mappings,
                                    std::span<const AddrRange> heap) {
    std::vector<AddrRange> absent;
    for (const Mapping& mapping : mappings) {
        const auto first =
            std::partition_point(heap.begin(), heap.end(), [&mapping](const AddrRange& range) {
                return range.end <= mapping.range.begin;
            });
        if (first == heap.end() || first->begin >= mapping.range.end || mapping.shared ||
            !is_searched(mapping)) {
            continue;
        }
        std::uint64_t at = mapping.range.begin;
        for (const AddrRange& part : pages.in(mapping.range, PresentPages::Kind::own)) {
            if (at < part.begin) {
                absent.push_back({at, part.begin});
            }
            at = part.end;
        }
        if (at < mapping.range.end) {
            absent.push_back({at, mapping.range.end});
        }
    }
    return absent;
}

/// The words of each block, in one pass, without those of `absent`.
bool read_links(MemoryReader& memory, const BlockIndex& index, const HeapBlocks& blocks,
                std::span<const AddrRange> absent, BlockContents* contents) {
    WordWindow window(memory, WordWindow::kLarge);
    auto gap = absent.begin(); // the next one
    for (const HeapBlock& block : blocks) {
        contents->begin_block();
        const std::uint64_t begin = block.address.value();
        const std::uint64_t end = begin + block.size;
        for (std::uint64_t at = begin; at + sizeof at <= end;) {
            while (gap != absent.end() && gap->end <= at) {
                ++gap;
            }
            if (gap != absent.end() && gap->begin <= at) {
                at = gap->end;
                continue;
            }
            const std::uint64_t limit = gap != absent.end() ? gap->begin : UINT64_MAX;
            window.set_end(limit);
            for (; at < limit && at + sizeof at <= end; at += sizeof at) {
                const auto word = window.word(at);
                if (!word) {
                    return false;
                }
                if (at == begin) {
                    contents->take_first_word(*word);
                }
                if (!index.may_be_link(*word)) {
                    continue;
                }
                if (const auto link = find_link(index, window, at, *word, end)) {
                    contents->add_link(*link, (at - begin) / sizeof at);
                    if (link->is_interior()) {
                        contents->note_offset(*link, index.offset(*link, *word));
                    }
                }
            }
        }
    }
    contents->finish();
    return true;
}

std::vector<AddrRange> ascending(std::vector<AddrRange> ranges) {
    std::sort(ranges.begin(), ranges.end(),
              [](const AddrRange& a, const AddrRange& b) { return a.begin < b.begin; });
    return ranges;
}

} // namespace

Result<HeapReader> HeapReader::make(const ModuleMap& modules) {
    auto allocator = find_heap_allocator(modules);
    if (!allocator) {
        return std::move(allocator).error();
    }
    return HeapReader(modules, *std::move(allocator));
}

Result<HeapMoment> HeapReader::take(HeldProcess& process, std::vector<AddrRange> own_memory,
                                    RoomForCopy* room) {
    if (auto readable = room->check_readable(process); !readable) {
        return std::move(readable).error();
    }
    MemoryReader& memory = process.target().memory();
    const auto& mappings = process.mappings();
    if (!mappings) {
        return mappings.error();
    }
    const PresentPages pages(process.target().pid());
    auto books = allocator_->find_books(*mappings, memory, [&pages](AddrRange range) {
        return pages.in(range, PresentPages::Kind::any);
    });
    if (!books) {
        return std::move(books).error();
    }
    auto out_of_malloc = (*books)->leave_malloc(process, *modules_);
    if (!out_of_malloc) {
        return std::move(out_of_malloc).error();
    }
    if (out_of_malloc->empty()) {
        return HeapMoment();
    }
    auto moment = take_moment(process, *std::move(out_of_malloc), std::move(own_memory), room);
    if (moment) {
        moment->books = *std::move(books);
    }
    return moment;
}

HeapLook HeapReader::look_at(HeapMoment moment, MemoryReader& readable,
                             const HeapOptions& options) {
    MemoryWithSharedParts memory(readable, moment.shared.get());
    HeapLook look;
    HeapSnapshot& snapshot = look.snapshot;
    const std::vector<ThreadView>& threads = moment.threads;
    if (threads.empty()) {
        look.was_busy = true;
        snapshot.why = "a thread was at work in malloc at each look";
        return look;
    }
    snapshot.time = moment.time;
    snapshot.threads = threads.size();
    std::vector<std::uint64_t> pointers;
    pointers.reserve(threads.size());
    for (const ThreadView& thread : threads) {
        pointers.push_back(thread.thread_pointer);
    }
    const PresentPages& pages = *moment.pages;
    WalkedHeap heap =
        moment.books->walk(memory, {moment.mappings, pointers, [&pages](AddrRange range) {
                                        return pages.in(range, PresentPages::Kind::own);
                                    }});
    if (!heap.why.empty()) {
        snapshot.why = std::move(heap.why);
        return look;
    }
    snapshot.graph.blocks = std::move(heap.blocks);
    snapshot.graph.lacks_roots = moment.lacks_shared;
    const BlockIndex index(snapshot.graph.blocks, moment.books->behind_blocks());
    RootSearch roots(memory, index, pages, moment.books->thread_block(),
                     details_of(&snapshot.graph, options));
    roots.add_threads(threads);
    roots.add_kernel_pointers(moment.kernel_pointers);
    const std::vector<AddrRange> absent =
        absent_parts(pages, moment.mappings, ascending(heap.ranges));
    std::vector<AddrRange> no_roots = std::move(moment.own_memory);
    no_roots.insert(no_roots.end(), heap.ranges.begin(), heap.ranges.end());
    roots.add_memory(moment.mappings, ascending(std::move(no_roots)), threads);
    snapshot.graph.roots = roots.take();
    BlockContents contents(moment.mappings, options, &snapshot.graph);
    snapshot.complete = read_links(memory, index, snapshot.graph.blocks, absent, &contents);
    if (!snapshot.complete) {
        snapshot.why = "a part of the heap cannot be read";
    }
    if (options.details) {
        add_places(std::move(moment), &snapshot);
    }
    return look;
}

} // namespace memleax

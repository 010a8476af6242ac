// SPDX-License-Identifier: GPL-3.0-or-later
#include "root_search.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "glibc_layout.hpp"
#include "stored_memory.hpp"
#include "thread_area.hpp"

namespace memleax {

namespace {

std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, &bytes[at], sizeof value);
    return value;
}

RootPlace in_memory(std::uint64_t address) {
    return {.kind = RootPlace::Kind::memory, .tid = {}, .address = RemoteAddr(address)};
}

constexpr std::uint64_t kMostTls = 64 << 10;
constexpr std::uint64_t kPage = 4096; ///< or a part of one

} // namespace

void RootSearch::add_word(std::uint64_t word, const RootPlace& place, BlockIndex::LastWord last) {
    const auto link = index_.find(word, last);
    if (!link || (link->is_interior() && last == BlockIndex::LastWord::is_block &&
                  add_object_segments(word, *link, place))) {
        return;
    }
    add_root(*link, place);
    if (details_ != nullptr && link->is_interior()) {
        details_->pointer_offsets.add(link->block(), index_.offset(*link, word));
    }
    if (const auto end = index_.find_end_at(*link)) {
        add_root(*end, place);
    }
}

// ld.so's _dl_find_object has the objects that dlopen has loaded in segments, which begin at a
// cache line within their block, and keeps pointers to those begins only (elf/dl-find_object.c,
// since glibc 2.35). A segment has the address of its block, for __libc_freeres.
bool RootSearch::add_object_segments(std::uint64_t word, BlockLink link, const RootPlace& place) {
    constexpr std::uint64_t kCacheLine = 128;     // its estimate, for any CPU
    constexpr std::uint64_t kSmallestObject = 32; // three addresses at least, and eh_frame
    constexpr int kMostSegments = 64;             // each is twice as long as the one before
    struct Segment {
        std::uint64_t previous;
        std::uint64_t to_free;
        std::uint64_t size;
        std::uint64_t allocated;
    };
    const auto segment_at = [&](std::uint64_t at, const HeapBlock& block) {
        const std::uint64_t begin = block.address.value();
        auto segment = at % kCacheLine == 0 && at - begin < kCacheLine
                           ? memory_.try_read_object<Segment>(RemoteAddr(at))
                           : std::nullopt;
        const bool is_one = segment && segment->to_free == begin &&
                            segment->size <= segment->allocated &&
                            segment->allocated <= block.size / kSmallestObject;
        return is_one ? segment : std::nullopt;
    };
    auto segment = segment_at(word, index_.block(link));
    if (!segment) {
        return false;
    }
    add_root(BlockLink(link.block(), false), place);
    for (int i = 0; i < kMostSegments && segment && segment->previous != 0; ++i) {
        const auto previous = index_.find(segment->previous);
        segment = previous ? segment_at(segment->previous, index_.block(*previous)) : std::nullopt;
        if (segment) {
            add_root(BlockLink(previous->block(), false), place);
        }
    }
    return true;
}

void RootSearch::add_kernel_pointers(std::span<const std::uint64_t> words) {
    for (const std::uint64_t word : words) {
        add_word(word, {.kind = RootPlace::Kind::kernel, .tid = {}, .address = {}});
    }
}

void RootSearch::add_range(AddrRange range, BlockIndex::LastWord last) {
    constexpr int kMostFailures = 64; // in a row: each is a call of the kernel's
    range.begin = (range.begin + 7) & ~7ULL;
    for (int failures = 0; range.begin < range.end;) {
        const std::size_t wanted = std::min<std::uint64_t>(range.size(), buffer_.size());
        const std::size_t got =
            memory_.try_read(RemoteAddr(range.begin), std::span(buffer_).first(wanted));
        for (std::size_t at = 0; at + sizeof(std::uint64_t) <= got; at += sizeof(std::uint64_t)) {
            const std::uint64_t word = word_at(buffer_, at);
            if (block_words_ == nullptr || !block_words_->take(range.begin + at, word)) {
                add_word(word, in_memory(range.begin + at), last);
            }
        }
        range.begin += got;
        failures = got == 0 ? failures + 1 : 0;
        if (failures == kMostFailures) {
            return; // a device's memory, or a file that has become shorter
        }
        if (got < wanted) { // a page that nobody may read
            range.begin = (range.begin & ~(kPage - 1)) + kPage;
        }
    }
}

void RootSearch::add_chunk_pointers(AddrRange range) {
    std::vector<std::byte> bytes(range.size());
    range.begin &= ~7ULL;
    bytes.resize(memory_.try_read(RemoteAddr(range.begin), bytes));
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes.size();
         at += sizeof(std::uint64_t)) {
        add_word(word_at(bytes, at) + glibc::kHeader, in_memory(range.begin + at));
    }
}

void RootSearch::add_dtv(std::uint64_t thread_pointer, Tid tid) {
    if (thread_pointer == 0 || !block_.dtv) {
        return;
    }
    const auto dtv =
        memory_.try_read_object<std::uint64_t>(RemoteAddr(thread_pointer + *block_.dtv));
    if (dtv) {
        add_word(*dtv - block_.dtv_offset,
                 {.kind = RootPlace::Kind::thread, .tid = tid, .address = {}});
    }
}

void RootSearch::add_threads(std::span<const ThreadView> threads) {
    for (const ThreadView& thread : threads) {
        const RootPlace registers{
            .kind = RootPlace::Kind::registers, .tid = thread.tid, .address = {}};
        for (const std::uint64_t word : thread.registers) {
            add_word(word, registers);
            if (thread.malloc_frames_end != 0) {
                add_word(word + glibc::kHeader, registers);
            }
        }
        add_dtv(thread.thread_pointer, thread.tid);
        if (pointer_offset_ == 0) {
            pointer_offset_ = offset_of_pointer(thread);
        }
        if (thread.malloc_frames_end != 0) {
            add_chunk_pointers({thread.sp - arch::kRedZone, thread.malloc_frames_end});
        }
    }
}

// Where the mapping below keeps others off, this may be a stack, which is in use from its thread's
// sp up. That it is this thread's own one, its control block says: a coroutine's may lie behind it
// in the same mapping, and stacks without a guard side by side, or in the middle of other data.
AddrRange RootSearch::in_use(const Mapping& mapping, bool has_guard,
                             std::span<const ThreadView> threads) {
    if (!has_guard && mapping.path != "[stack]") {
        return mapping.range;
    }
    const ThreadView* lowest = nullptr;
    bool is_of_living = false;
    for (const ThreadView& thread : threads) {
        if (mapping.range.contains(thread.sp) && (lowest == nullptr || thread.sp < lowest->sp)) {
            lowest = &thread;
        }
        is_of_living = is_of_living || mapping.range.contains(thread.thread_pointer);
    }
    if (lowest != nullptr) {
        const bool is_stack = mapping.path == "[stack]" || is_stack_of(*lowest, mapping.range);
        return is_stack ? AddrRange{std::max(mapping.range.begin, lowest->sp - arch::kRedZone),
                                    mapping.range.end}
                        : mapping.range;
    }
    return is_of_living ? mapping.range : dead_thread_in(mapping.range);
}

/// Its length comes before it, and it begins with its generation: as many as there are modules, or
/// as they have come and gone.
bool RootSearch::has_dtv(std::uint64_t thread_pointer) {
    constexpr std::uint64_t kMost = 1U << 24;
    if (!block_.dtv) {
        return true; // nothing is known of it
    }
    const auto dtv =
        memory_.try_read_object<std::uint64_t>(RemoteAddr(thread_pointer + *block_.dtv));
    if (!dtv || *dtv % sizeof *dtv != 0 || *dtv < block_.dtv_offset) {
        return false;
    }
    const auto length =
        memory_.try_read_object<std::uint64_t>(RemoteAddr(*dtv - block_.dtv_offset));
    const auto generation = memory_.try_read_object<std::uint64_t>(RemoteAddr(*dtv));
    return length && *length < kMost && generation && *generation < kMost;
}

/// Where the control block of this thread is, or of one that has ended, if it is in this memory.
std::optional<std::uint64_t> RootSearch::find_control_block(AddrRange range,
                                                            std::optional<Tid> living) {
    std::vector<std::byte> bytes(range.size());
    if (memory_.try_read(RemoteAddr(range.begin), bytes) != bytes.size()) {
        return std::nullopt;
    }
    for (std::size_t i = 0; i + block_.bytes <= bytes.size(); i += block_.alignment) {
        const std::uint64_t block = range.begin + i;
        const auto tid = static_cast<std::int32_t>(word_at(bytes, i + block_.tid));
        const bool has_own_addresses = std::all_of(
            block_.own_addresses.begin(), block_.own_addresses.end(),
            [&](const auto& own) { return word_at(bytes, i + own.at) == block + own.points_to; });
        if (has_own_addresses &&
            (living ? tid == living->value() : tid <= 0 && has_dtv(block + pointer_offset_))) {
            return block;
        }
    }
    return std::nullopt;
}

// Where the block lies before the thread pointer, it does so by its size, which differs between
// versions; so a living thread is asked.
std::uint64_t RootSearch::offset_of_pointer(const ThreadView& thread) {
    constexpr std::uint64_t kMostBlock = 4096;
    if (!arch::kTlsIsAbovePointer || thread.thread_pointer < kMostBlock ||
        block_.own_addresses.empty()) {
        return 0;
    }
    const std::uint64_t end = thread.thread_pointer;
    if (block_.pointer_at != 0) { // the first word is the block's own address
        const std::uint64_t known = end - block_.pointer_at;
        const auto self = memory_.try_read_object<std::uint64_t>(RemoteAddr(known));
        return self == known ? block_.pointer_at : 0;
    }
    auto block =
        find_control_block({(end - kMostBlock) & ~(block_.alignment - 1), end}, thread.tid);
    if (!block) { // the mapping may begin with it, at whatever multiple of this
        block = find_control_block({end & ~(kMostBlock - 1), end}, thread.tid);
    }
    return block ? end - *block : 0;
}

// glibc keeps stacks of threads that have ended for new ones, and the dtv with them; musl those
// that nobody has joined. The thread's variables, below the control block or above it, are
// nobody's.
AddrRange RootSearch::dead_thread_in(AddrRange stack) {
    if (block_.own_addresses.empty()) {
        return stack; // nothing is known of this C library's threads
    }
    const std::uint64_t begin =
        (stack.end - std::min(stack.size(), kMostTls)) & ~(block_.alignment - 1);
    const bool is_known = !arch::kTlsIsAbovePointer || pointer_offset_ != 0;
    const auto block =
        is_known ? find_control_block({begin, stack.end}, std::nullopt) : std::nullopt;
    if (!block) {
        return stack;
    }
    const AddrRange own{*block, *block + pointer_offset_};
    const AddrRange within = arch::kTlsIsAbovePointer ? own : AddrRange{*block, stack.end};
    add_dtv(own.end, Tid());
    if (!has_stack(within, stack, {*block + 1, stack.end + 1})) {
        return stack; // what lies before it is somebody's
    }
    const bool is_alone =
        arch::kTlsIsAbovePointer && has_stack(own, stack, {stack.end, stack.end + 1});
    return is_alone ? own : AddrRange{*block, stack.end};
}

// The kernel joins a stack with what is mapped behind it. Where its guard begins, and how long the
// two are, stands in the control block.
bool RootSearch::has_stack(AddrRange control_block, const AddrRange& mapping, AddrRange ends) {
    constexpr std::uint64_t kMostGuard = 64U << 20;
    std::vector<std::uint64_t> words(control_block.size() / sizeof(std::uint64_t));
    const std::size_t got =
        memory_.try_read(RemoteAddr(control_block.begin), std::as_writable_bytes(std::span(words)));
    words.resize(got / sizeof(std::uint64_t));
    const auto found = std::adjacent_find(
        words.begin(), words.end(), [&](std::uint64_t begin, std::uint64_t size) {
            return begin < mapping.begin && mapping.begin - begin <= kMostGuard &&
                   size <= ends.end - begin && ends.contains(begin + size);
        });
    return found != words.end();
}

bool RootSearch::is_stack_of(const ThreadView& thread, const AddrRange& mapping) {
    constexpr std::uint64_t kMostBlock = 4096;
    const std::uint64_t pointer = thread.thread_pointer;
    if (!mapping.contains(pointer) || pointer < thread.sp) {
        return false;
    }
    const AddrRange block = arch::kTlsIsAbovePointer
                                ? AddrRange{pointer - pointer_offset_, pointer}
                                : AddrRange{pointer, std::min(pointer + kMostBlock, mapping.end)};
    return has_stack(block, mapping, {pointer, mapping.end + 1});
}

void RootSearch::add_memory(std::span<const Mapping> mappings, std::span<const AddrRange> heap,
                            std::span<const ThreadView> threads) {
    const Mapping* before = nullptr;
    bool is_static = false;
    for (const Mapping& mapping : mappings) {
        const bool has_guard = before != nullptr && before->range.end == mapping.range.begin &&
                               !before->readable && before->inode == 0 && mapping.inode == 0;
        // Static variables: what is of a file, and what is zero at first behind that.
        is_static = mapping.inode != 0 || (is_static && before != nullptr && mapping.path.empty() &&
                                           before->range.end == mapping.range.begin);
        const auto last =
            is_static ? BlockIndex::LastWord::is_block : BlockIndex::LastWord::is_header;
        before = &mapping;
        if (!is_searched(mapping)) {
            continue;
        }
        const AddrRange rest = in_use(mapping, has_guard && mapping.writable, threads);
        const auto kind = mapping.shared ? PresentPages::Kind::any : PresentPages::Kind::own;
        for (AddrRange part : pages_.in(rest, kind)) {
            part = {std::max(part.begin, rest.begin), std::min(part.end, rest.end)};
            auto next = std::upper_bound(
                heap.begin(), heap.end(), part.begin,
                [](std::uint64_t at, const AddrRange& range) { return at < range.end; });
            for (; part.begin < part.end; ++next) {
                const bool is_last = next == heap.end() || next->begin >= part.end;
                const std::uint64_t end = is_last ? part.end : std::max(next->begin, part.begin);
                add_range({part.begin, end}, last);
                if (is_last) {
                    break;
                }
                part.begin = next->end;
            }
        }
    }
}

} // namespace memleax

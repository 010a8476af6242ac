// SPDX-License-Identifier: GPL-3.0-or-later
/// The agent's way from a call to its call stack: by the tree that the tracer has made, or by what
/// the last such walk has read. Included by agent.cpp only, with whose options it is compiled.
#pragma once

#include "agent.hpp"
#include "agent_cpu.hpp"
#include "memleax/unwind/frame_pointer.hpp"

#define AGENT_PART __attribute__((always_inline)) static inline
#define AGENT_APART __attribute__((section("memleax_agent"), noinline)) static

// NOLINTBEGIN(performance-no-int-to-ptr): addresses are what it is about.
namespace memleax::agent {

template <class T> AGENT_PART T load(const T& from) {
    return __atomic_load_n(&from, __ATOMIC_ACQUIRE);
}
template <class T> AGENT_PART void store(T& to, T value) {
    __atomic_store_n(&to, value, __ATOMIC_RELEASE);
}

// Indices are 64 bits wide throughout: what is spilled as 32 bits and read back as 64 waits until
// the store has left the CPU.
AGENT_PART uint64_t find_child(const Data& data, uint64_t parent, uint64_t return_address) {
    const uint64_t first = load(data.nodes[parent].first_child);
    if (first != 0 && first < kMaxNodes) {
        const Node& node = data.nodes[first];
        if (node.return_address == return_address && node.parent == parent) {
            return first;
        }
    }
    uint64_t slot = child_slot(parent, return_address);
    for (uint32_t i = 0; i < kMostProbes; ++i) {
        const uint64_t index = load(data.children[slot]);
        if (index == 0 || index >= kMaxNodes) {
            return 0;
        }
        const Node& node = data.nodes[index];
        if (node.return_address == return_address && node.parent == parent) {
            return index;
        }
        slot = (slot + 1) % kChildSlots;
    }
    return 0;
}

/// The part of the stack that may be read: from the call on.
struct Stack {
    uint64_t begin;
    uint64_t end;
};

AGENT_PART uint64_t offset(int32_t value) {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
}

/// What a walk reads, written into a memo if there is one.
struct Reads {
    const Stack* stack;
    Memo* memo;
    uint64_t count = 0;
    uint64_t uses_fp = 0; ///< 1: the call's own

    /// False: that is not on the stack.
    AGENT_PART bool read(Reads& reads, uint64_t at, uint64_t* word) {
        const Stack& stack = *reads.stack;
        if (at < stack.begin || at > stack.end - sizeof(uint64_t) || at % sizeof(uint64_t) != 0) {
            return false;
        }
        *word = *reinterpret_cast<const uint64_t*>(at);
        if (reads.memo != nullptr && reads.count < Memo::kWords) {
            reads.memo->places[reads.count] = static_cast<uint32_t>(at - stack.begin);
            reads.memo->words[reads.count] = *word;
        }
        ++reads.count;
        return true;
    }
};

/// The frame pointer as a walk goes outwards. Who saves it has mostly no frame pointer in it, but
/// what changes from call to call: it is read where a frame is found by it, and nowhere else.
struct FramePointer {
    enum class State : uint8_t { of_call, saved, read };
    uint64_t value; ///< saved: where it is
    State state = State::of_call;

    /// False: it is not on the stack.
    AGENT_PART bool read(FramePointer& fp, Reads& reads) {
        if (fp.state == State::saved && !Reads::read(reads, fp.value, &fp.value)) {
            return false;
        }
        if (fp.state == State::of_call) {
            reads.uses_fp = 1;
        } else {
            fp.state = State::read;
        }
        return true;
    }
};

/// A call of a function that is watched, as it begins.
struct Call {
    uint32_t function;
    Stack stack;
    uint64_t fp;
    uint64_t return_address;
};

/// The call stack's id, if the epoch has not ended meanwhile; kNoStackId: it is not known.
AGENT_PART uint32_t walk(const Data& data, const Call& call, Reads& reads) {
    uint64_t sp = call.stack.begin + arch::kAgentEntryBytes; // of the caller
    FramePointer fp{call.fp};
    uint64_t return_address = call.return_address;
    uint64_t index = uint64_t{call.function} + 1;
    for (;;) {
        index = find_child(data, index, arch::agent_stripped(return_address));
        const Node& node = data.nodes[index];
        if (index == 0 || node.kind != Node::Kind::walk) {
            return index != 0 && node.kind == Node::Kind::leaf ? node.stack : kNoStackId;
        }
        if (node.base != Node::Base::sp && !FramePointer::read(fp, reads)) {
            return kNoStackId;
        }
        uint64_t cfa = (node.base == Node::Base::sp ? sp : fp.value) + offset(node.cfa_offset);
        if (node.base == Node::Base::plausible_fp && !is_plausible_frame_pointer(fp.value, sp)) {
            return_address = fp.value == 0 ? kNoCaller : kNoFrame;
            continue;
        }
        if (node.base == Node::Base::at_fp && !Reads::read(reads, cfa, &cfa)) {
            return kNoStackId;
        }
        // More than the agent's stack may be: a memo has its places in 32 bits.
        if (cfa <= sp ||
            !Reads::read(reads, cfa + arch::agent_return_place(node.ra_offset), &return_address)) {
            return kNoStackId;
        }
        if (node.fp_place != Node::FpPlace::unchanged) {
            if (node.fp_place == Node::FpPlace::at_fp && !FramePointer::read(fp, reads)) {
                return kNoStackId;
            }
            const uint64_t base = node.fp_place == Node::FpPlace::at_cfa ? cfa : fp.value;
            fp = {base + offset(node.fp_offset), FramePointer::State::saved};
        }
        sp = cfa;
    }
}

/// The same, with what it has read in the memo, if there is one. A function of its own, so that all
/// of it is in registers.
AGENT_APART uint32_t walk_with(Memo* memo, const Data& data, const Call& call) {
    const Call own = call;
    Reads reads{&own.stack, memo};
    const uint32_t id = walk(data, own, reads);
    if (memo != nullptr) {
        memo->count = static_cast<uint32_t>(reads.count);
        memo->uses_fp = static_cast<uint8_t>(reads.uses_fp);
    }
    return id;
}

/// 0: the word on the stack is the memo's. None is read behind `last`, as the program may have
/// written into the memo.
AGENT_PART uint64_t difference(const Memo& memo, uint64_t i, uint64_t begin, uint64_t last) {
    const uint64_t place = memo.places[i];
    return *reinterpret_cast<const uint64_t*>(begin + (place < last ? place : last)) ^
           memo.words[i];
}

/// The same of Memo::kStep words. (The compiler would make a loop of it.)
AGENT_PART uint64_t step_difference(const Memo& memo, uint64_t i, uint64_t begin, uint64_t last) {
    static_assert(Memo::kStep == 4);
    return difference(memo, i, begin, last) | difference(memo, i + 1, begin, last) |
           difference(memo, i + 2, begin, last) | difference(memo, i + 3, begin, last);
}

/// Are the words on the stack the memo's, `count` of them? A function of its own likewise: in
/// memory, the sum of the differences would cost more than reading them.
AGENT_APART bool are_the_same(const Memo& memo, uint64_t count, uint64_t begin, uint64_t last) {
    constexpr uint64_t kFirst = 4 * Memo::kStep; // mostly stacks differ there, if at all
    const uint64_t first = count < kFirst ? count : kFirst;
    uint64_t any = 0;
    uint64_t end = Memo::kStep;
    for (; end <= first; end += Memo::kStep) {
        any |= step_difference(memo, end - Memo::kStep, begin, last);
    }
    if (any == 0) {
        for (; end <= count; end += Memo::kStep) {
            any |= step_difference(memo, end - Memo::kStep, begin, last);
        }
    }
    return any == 0;
}

/// Would a walk begin as the memo's? `last`: the last place on the stack that may be read.
AGENT_PART bool begins_the_same(const Memo& memo, uint64_t count, uint64_t epoch, const Call& call,
                                uint64_t last) {
    // Where the stack's end is another one, `last` would be read for what is behind it.
    return memo.epoch == epoch && memo.sp == call.stack.begin &&
           (memo.fp == call.fp || memo.uses_fp == 0) &&
           memo.return_address == call.return_address && memo.function == call.function &&
           count <= Memo::kWords && memo.last <= last;
}

/// Would it read the same as the memo's?
AGENT_PART bool reads_the_same(const Memo& memo, uint64_t epoch, const Call& call, uint64_t last) {
    const uint64_t count = memo.count;
    return begins_the_same(memo, count, epoch, call, last) &&
           are_the_same(memo, count, call.stack.begin, last);
}

/// The same of one that is tried after others: first comes the word that was another one the last
/// time.
AGENT_PART bool still_reads_the_same(Memo& memo, uint64_t epoch, const Call& call, uint64_t last) {
    const uint64_t count = memo.count;
    const uint64_t begin = call.stack.begin;
    if (!begins_the_same(memo, count, epoch, call, last)) {
        return false;
    }
    const uint64_t decisive = memo.decisive;
    if (decisive < count && difference(memo, decisive, begin, last) != 0) {
        return false;
    }
    for (uint64_t i = 0; i < count; ++i) {
        if (difference(memo, i, begin, last) != 0) {
            memo.decisive = static_cast<uint8_t>(i);
            return false;
        }
    }
    return true;
}

/// Walks, and keeps what it has read for the next time.
AGENT_PART uint32_t walk_into(Memo& memo, const Data& data, uint64_t epoch, const Call& call) {
    memo.epoch = 0;
    const uint32_t id = walk_with(&memo, data, call);
    uint64_t count = memo.count; // which others may write
    if (id == kNoStackId || count > Memo::kWords) {
        return id;
    }
    for (; count % Memo::kStep != 0; ++count) {
        memo.places[count] = memo.places[count - 1];
        memo.words[count] = memo.words[count - 1];
    }
    memo.count = static_cast<uint32_t>(count);
    memo.last = 0;
    for (uint64_t i = 0; i < count; ++i) {
        memo.last = memo.places[i] > memo.last ? memo.places[i] : memo.last;
    }
    memo.sp = call.stack.begin;
    memo.fp = call.fp;
    memo.return_address = call.return_address;
    memo.function = call.function;
    memo.stack = id;
    memo.epoch = epoch;
    return id;
}

/// Of so many misses at one place, one is kept.
constexpr uint64_t kMissesForOne = 4;

/// The same from another memo than the one at its place, or by a walk, which is kept where that may
/// be of use.
AGENT_APART uint32_t find_elsewhere(Memo* memos, uint64_t index, uint32_t candidate,
                                    const Data& data, uint64_t epoch, const Call& call) {
    const uint64_t last = call.stack.end - call.stack.begin - sizeof(uint64_t);
    for (uint64_t way = 1; way < kMemoWays; ++way) {
        Memo& memo = memos[index ^ way];
        if (still_reads_the_same(memo, epoch, call, last)) {
            return memo.stack;
        }
    }
    Memo& own = memos[index];
    if (own.candidate == candidate && own.misses++ % kMissesForOne == 0) {
        return walk_into(memos[index ^ (own.misses / kMissesForOne % kMemoWays)], data, epoch,
                         call);
    }
    // Where more stacks take turns than there are memos, none would be of use.
    own.candidate = candidate;
    return walk_with(nullptr, data, call);
}

/// The call stack's id, from the thread's memo or by a walk; the same holds.
AGENT_PART uint32_t find_stack(const Data& data, uint64_t epoch, const Thread& thread,
                               Progress& progress, const Call& call) {
    const Stack& stack = call.stack;
    const uint64_t mixed = (call.return_address ^ (stack.begin << 20)) * 0x9e3779b97f4a7c15ULL;
    const uint64_t index = mixed >> 32 & (uint64_t{thread.memo_count} - 1);
    auto* const memos = reinterpret_cast<Memo*>(thread.memos);
    Memo& memo = memos[index];
    // A signal's handler that interrupts us here must not change the memo, and does without. A low
    // byte of 0 is no epoch, or one that is being written.
    const uint64_t last = stack.end - stack.begin - sizeof(uint64_t);
    const bool may_use_memo =
        load(progress.uses_memo) == 0 && epoch % 256 != 0 && last <= kNoStackId;
    if (!may_use_memo) [[unlikely]] {
        const Call apart = call; // so that `call` is in registers
        return walk_with(nullptr, data, apart);
    }
    store(progress.uses_memo, uint8_t{1});
    uint32_t id = memo.stack;
    if (!reads_the_same(memo, epoch, call, last)) [[unlikely]] {
        const Call apart = call;
        id = find_elsewhere(memos, index, static_cast<uint32_t>(mixed), data, epoch, apart);
    }
    store(progress.uses_memo, uint8_t{0});
    return id;
}

/// The call stack's id; kNoStackId: it is not known, or the epoch has ended. Then the nodes may
/// have been others' while they were walked, as the tracer uses them again once it has begun a new
/// one.
AGENT_PART uint32_t call_stack(const Data& data, const Thread& thread, Progress& progress,
                               const Call& call) {
    const uint64_t epoch = load(data.epoch);
    const uint32_t id = find_stack(data, epoch, thread, progress, call);
    __atomic_thread_fence(__ATOMIC_ACQUIRE); // the nodes were read before
    return load(data.epoch) == epoch ? id : kNoStackId;
}

} // namespace memleax::agent
// NOLINTEND(performance-no-int-to-ptr)

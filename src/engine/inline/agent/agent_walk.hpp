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
        memo->uses_fp = static_cast<uint32_t>(reads.uses_fp);
    }
    return id;
}

/// Are the words on the stack the memo's, `count` of them? None is read behind `last`, as the
/// program may have written into the memo. A function of its own likewise: in memory, the sum of
/// the differences would cost more than reading them.
AGENT_APART bool are_the_same(const Memo& memo, uint64_t count, uint64_t begin, uint64_t last) {
    uint64_t difference = 0;
    for (uint64_t i = 0; i < count; ++i) {
        const uint64_t place = memo.places[i];
        difference |= *reinterpret_cast<const uint64_t*>(begin + (place < last ? place : last)) ^
                      memo.words[i];
    }
    return difference == 0;
}

/// Would a walk read the same as the memo's?
AGENT_PART bool reads_the_same(const Memo& memo, uint64_t epoch, const Call& call) {
    const uint64_t count = memo.count;
    const Stack& stack = call.stack;
    if (memo.epoch != epoch || memo.sp != stack.begin ||
        (memo.fp != call.fp && memo.uses_fp != 0) || memo.return_address != call.return_address ||
        memo.function != call.function || count > Memo::kWords) {
        return false;
    }
    // Where the stack's end is another one, `last` would be read for what is behind it.
    const uint64_t last = stack.end - stack.begin - sizeof(uint64_t);
    return memo.last <= last && are_the_same(memo, count, stack.begin, last);
}

/// Walks, and keeps what it has read for the next time.
AGENT_PART uint32_t walk_into(Memo& memo, const Data& data, uint64_t epoch, const Call& call) {
    memo.epoch = 0;
    const uint32_t id = walk_with(&memo, data, call);
    if (id == kNoStackId || memo.count > Memo::kWords) {
        return id;
    }
    memo.last = 0;
    for (uint64_t i = 0; i < memo.count; ++i) {
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

/// The same by a walk, which is kept in the memo where that may be of use.
AGENT_APART uint32_t find_anew(Memo& memo, uint32_t candidate, const Data& data, uint64_t epoch,
                               const Call& call) {
    if (memo.candidate == candidate) {
        return walk_into(memo, data, epoch, call);
    }
    // Not yet: where more stacks take turns than there are memos, none would be of use.
    memo.candidate = candidate;
    return walk_with(nullptr, data, call);
}

/// The call stack's id, from the thread's memo or by a walk; the same holds.
AGENT_PART uint32_t find_stack(const Data& data, uint64_t epoch, const Thread& thread,
                               Progress& progress, const Call& call) {
    const Stack& stack = call.stack;
    const uint64_t mixed = (call.return_address ^ (stack.begin << 20)) * 0x9e3779b97f4a7c15ULL;
    const uint64_t index = mixed >> 32 & (uint64_t{thread.memo_count} - 1);
    Memo& memo = reinterpret_cast<Memo*>(thread.memos)[index];
    // A signal's handler that interrupts us here must not change the memo, and does without. A low
    // byte of 0 is no epoch, or one that is being written.
    const bool may_use_memo = load(progress.uses_memo) == 0 && epoch % 256 != 0 &&
                              stack.end - stack.begin - sizeof(uint64_t) <= kNoStackId;
    if (!may_use_memo) [[unlikely]] {
        const Call apart = call; // so that `call` is in registers
        return walk_with(nullptr, data, apart);
    }
    store(progress.uses_memo, uint8_t{1});
    uint32_t id = memo.stack;
    if (!reads_the_same(memo, epoch, call)) [[unlikely]] {
        const Call apart = call;
        id = find_anew(memo, static_cast<uint32_t>(mixed), data, epoch, apart);
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

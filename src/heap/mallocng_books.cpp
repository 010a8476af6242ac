// SPDX-License-Identifier: GPL-3.0-or-later
#include "mallocng_books.hpp"

#include <algorithm>
#include <utility>

#include "mallocng_walk.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"

namespace memleax {

namespace {

class MallocngBooks final : public HeapBooks {
  public:
    explicit MallocngBooks(MallocngPlaces places) : places_(std::move(places)) {}

    Result<std::vector<ThreadView>> leave_malloc(HeldProcess& process,
                                                 const ModuleMap& modules) const override;
    WalkedHeap walk(MemoryReader& memory, WalkInput /*input*/) const override {
        return MallocngWalk(memory, places_).run();
    }
    [[nodiscard]] BlockIndex::Behind behind_blocks() const override {
        return BlockIndex::Behind::nothing;
    }
    [[nodiscard]] const ThreadBlock& thread_block() const override { return musl::kThreadBlock; }

  private:
    MallocngPlaces places_;
};

// A free slot that is about to be given out may look as if it had a block, of which nobody knows
// yet. So each thread has to be out of malloc, or asleep in a system call: malloc makes one that
// sleeps only to wait for its lock, before it has done anything. Those that are out stand still
// from then on, so they become fewer with each turn, also where threads do nothing but malloc.
Result<std::vector<ThreadView>> MallocngBooks::leave_malloc(HeldProcess& process,
                                                            const ModuleMap& modules) const {
    constexpr std::int64_t kMostMs = 1000;
    constexpr int kRunUs = 100;
    int turn = 0;
    for (const Patience patience(kMostMs);; ++turn) {
        std::vector<ThreadView> threads =
            look_at_threads(process.target(), process.threads(), modules, places_.code,
                            ThreadFrames::without_tables);
        std::vector<Tid> at_work;
        for (const ThreadView& thread : threads) {
            if (thread.malloc_frames_end != 0 && !thread.is_asleep) {
                at_work.push_back(thread.tid);
            }
        }
        if (at_work.empty()) {
            log_debug("no thread is at work in malloc, after {} turns", turn);
            return threads;
        }
        if (patience.is_over()) {
            log_debug("{} threads are in malloc after {} turns", at_work.size(), turn);
            return std::vector<ThreadView>();
        }
        if (auto ran = process.run_on(at_work, kRunUs); !ran) {
            return std::move(ran).error();
        }
    }
}

class MallocngAllocator final : public HeapAllocator {
  public:
    explicit MallocngAllocator(const Mallocng& libc) : libc_(libc) {}

    Result<std::unique_ptr<HeapBooks>> find_books(std::span<const Mapping> mappings,
                                                  MemoryReader& memory,
                                                  const PresentParts& present) const override {
        auto places = find_mallocng_places(libc_, mappings, memory, present);
        if (!places) {
            return std::move(places).error();
        }
        return std::unique_ptr<HeapBooks>(std::make_unique<MallocngBooks>(*std::move(places)));
    }

  private:
    Mallocng libc_;
};

} // namespace

std::unique_ptr<HeapAllocator> make_heap_allocator(const Mallocng& libc) {
    return std::make_unique<MallocngAllocator>(libc);
}

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
#include "glibc_books.hpp"

#include <utility>

#include "glibc_walk.hpp"
#include "leave_malloc.hpp"

namespace memleax {

namespace {

class GlibcBooks final : public HeapBooks {
  public:
    explicit GlibcBooks(GlibcPlaces places) : places_(std::move(places)) {}

    Result<std::vector<ThreadView>> leave_malloc(HeldProcess& process,
                                                 const ModuleMap& modules) const override {
        return memleax::leave_malloc(process, places_, modules);
    }
    WalkedHeap walk(MemoryReader& memory, WalkInput input) const override {
        GlibcWalk walk(memory, places_, std::move(input));
        if (!walk.run()) {
            return {.why = walk.why(), .blocks = {}, .ranges = {}};
        }
        return {.why = "", .blocks = walk.take_blocks(), .ranges = walk.ranges()};
    }
    [[nodiscard]] BlockIndex::Behind behind_blocks() const override {
        return BlockIndex::Behind::header;
    }
    [[nodiscard]] const ThreadBlock& thread_block() const override { return glibc::kThreadBlock; }

  private:
    GlibcPlaces places_;
};

class GlibcAllocator final : public HeapAllocator {
  public:
    explicit GlibcAllocator(const Glibc& libc) : libc_(libc) {}

    Result<std::unique_ptr<HeapBooks>> find_books(std::span<const Mapping> mappings,
                                                  MemoryReader& memory,
                                                  const PresentParts& present) const override {
        auto places = find_glibc_places(libc_, mappings, memory, present);
        if (!places) {
            return std::move(places).error();
        }
        return std::unique_ptr<HeapBooks>(std::make_unique<GlibcBooks>(*std::move(places)));
    }

  private:
    Glibc libc_;
};

} // namespace

std::unique_ptr<HeapAllocator> make_heap_allocator(const Glibc& libc) {
    return std::make_unique<GlibcAllocator>(libc);
}

} // namespace memleax

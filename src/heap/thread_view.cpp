// SPDX-License-Identifier: GPL-3.0-or-later
#include "thread_view.hpp"

#include <algorithm>
#include <array>

#include "memleax/target/stopped_thread.hpp"
#include "memleax/unwind/unwinder.hpp"

namespace memleax {

namespace {

/// malloc's own functions call each other a few deep, and have small frames.
constexpr unsigned kMostFrames = 24;
constexpr std::size_t kMostWords = 512;

class MallocFrames {
  public:
    MallocFrames(Target& target, const ModuleMap& modules, std::span<const AddrRange> entry_points)
        : target_(target), entry_points_(entry_points), unwinder_(modules, target.memory()) {}

    /// Notes those up to the outermost such function, if there are any.
    void find(const arch::Registers& regs, ThreadView* thread) {
        std::array<std::uint64_t, kMostWords> stack{};
        const std::uint64_t sp = arch::sp(regs).value() & ~7ULL;
        const std::size_t words =
            target_.memory().try_read(RemoteAddr(sp), std::as_writable_bytes(std::span(stack))) /
            sizeof stack[0];
        const auto behind = stack.begin() + static_cast<std::ptrdiff_t>(words);
        if (entry_points_.empty()) { // anybody may be there
            thread->malloc_words.assign(stack.begin(), behind);
            thread->malloc_frames_end = sp + words * sizeof stack[0] + 1;
            return;
        }
        // A walk takes longer than to see that there is nothing to be found.
        if (!is_malloc(arch::pc(regs)) &&
            std::none_of(stack.begin(), behind,
                         [this](std::uint64_t word) { return is_malloc(CodeAddr(word)); })) {
            return;
        }
        unwinder_.set_signature_mask(StoppedThread(thread->tid).signature_mask());
        UnwoundStack walked;
        unwinder_.unwind(regs, kMostFrames, &walked);
        const auto outermost =
            std::find_if(walked.frames.rbegin(), walked.frames.rend(),
                         [this](FrameAddress frame) { return is_malloc(frame.lookup_pc()); });
        if (outermost == walked.frames.rend()) {
            return;
        }
        // The address that it returns to is the end of its frame.
        const std::uint64_t caller =
            outermost == walked.frames.rbegin() ? 0 : std::prev(outermost)->pc().value();
        const auto place = std::find(stack.begin(), behind, caller);
        thread->malloc_words.assign(stack.begin(), place);
        thread->malloc_frames_end = sp + thread->malloc_words.size() * sizeof stack[0] + 1;
    }

  private:
    [[nodiscard]] bool is_malloc(CodeAddr code) const {
        return std::any_of(entry_points_.begin(), entry_points_.end(),
                           [code](const AddrRange& range) { return range.contains(code.value()); });
    }

    Target& target_;
    std::span<const AddrRange> entry_points_;
    Unwinder unwinder_;
};

} // namespace

std::vector<ThreadView> look_at_threads(Target& target, std::span<const Tid> threads,
                                        const ModuleMap& modules,
                                        std::span<const AddrRange> entry_points) {
    MallocFrames frames(target, modules, entry_points);
    std::vector<ThreadView> result;
    for (const Tid tid : threads) {
        arch::Registers regs{};
        if (!StoppedThread(tid).get_registers(&regs)) {
            continue;
        }
        ThreadView& thread = result.emplace_back();
        thread.tid = tid;
        thread.registers = StoppedThread(tid).register_words();
        thread.sp = arch::sp(regs).value();
        thread.thread_pointer = StoppedThread(tid).thread_pointer(regs);
        frames.find(regs, &thread);
    }
    return result;
}

} // namespace memleax

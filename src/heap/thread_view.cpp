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

    /// Up to where those of the outermost such function go; 0 if there are none.
    std::uint64_t end(Tid tid, const arch::Registers& regs) {
        std::array<std::uint64_t, kMostWords> stack{};
        const std::uint64_t sp = arch::sp(regs).value() & ~7ULL;
        const std::size_t words =
            target_.memory().try_read(RemoteAddr(sp), std::as_writable_bytes(std::span(stack))) /
            sizeof stack[0];
        const auto behind = stack.begin() + static_cast<std::ptrdiff_t>(words);
        // A walk takes longer than to see that there is nothing to be found.
        if (!is_malloc(arch::pc(regs)) &&
            std::none_of(stack.begin(), behind,
                         [this](std::uint64_t word) { return is_malloc(CodeAddr(word)); })) {
            return 0;
        }
        unwinder_.set_signature_mask(StoppedThread(tid).signature_mask());
        UnwoundStack walked;
        unwinder_.unwind(regs, kMostFrames, &walked);
        const auto outermost =
            std::find_if(walked.frames.rbegin(), walked.frames.rend(),
                         [this](FrameAddress frame) { return is_malloc(frame.lookup_pc()); });
        if (outermost == walked.frames.rend()) {
            return 0;
        }
        // The address that it returns to is the end of its frame.
        const std::uint64_t caller =
            outermost == walked.frames.rbegin() ? 0 : std::prev(outermost)->pc().value();
        const auto place = std::find(stack.begin(), behind, caller);
        return sp + static_cast<std::uint64_t>(place - stack.begin()) * sizeof stack[0] + 1;
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
        result.push_back({tid, StoppedThread(tid).register_words(), arch::sp(regs).value(),
                          StoppedThread(tid).thread_pointer(regs), frames.end(tid, regs)});
    }
    return result;
}

} // namespace memleax

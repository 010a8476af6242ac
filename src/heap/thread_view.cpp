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
    MallocFrames(Target& target, const ModuleMap& modules, std::span<const AddrRange> code,
                 ThreadFrames kind)
        : target_(target), modules_(modules), code_(code), kind_(kind),
          unwinder_(modules, target.memory()) {}

    /// Notes those up to the outermost such function, if there are any.
    void find(const arch::Registers& regs, ThreadView* thread) {
        std::array<std::uint64_t, kMostWords> stack{};
        const std::uint64_t sp = arch::sp(regs).value() & ~7ULL;
        const std::size_t words =
            target_.memory().try_read(RemoteAddr(sp), std::as_writable_bytes(std::span(stack))) /
            sizeof stack[0];
        const auto behind = stack.begin() + static_cast<std::ptrdiff_t>(words);
        if (code_.empty()) { // anybody may be there
            thread->malloc_words.assign(stack.begin(), behind);
            thread->malloc_frames_end = sp + words * sizeof stack[0] + 1;
            return;
        }
        if (kind_ == ThreadFrames::without_tables) {
            find_by_words(regs, {stack.begin(), behind}, sp, thread);
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
    // malloc calls a few small functions, of the same module: that far is the outermost frame that
    // may be at work.
    void find_by_words(const arch::Registers& regs, std::span<const std::uint64_t> stack,
                       std::uint64_t sp, ThreadView* thread) {
        constexpr std::size_t kMostBelow = 32;
        const std::uint64_t signature = StoppedThread(thread->tid).signature_mask();
        const auto is_malloc_word = [this, signature](std::uint64_t word) {
            return is_malloc(CodeAddr(word & ~signature));
        };
        const auto near = stack.first(std::min(stack.size(), kMostBelow));
        const bool returns_to_malloc =
            std::any_of(near.begin(), near.end(), is_malloc_word) ||
            (arch::kHasLinkRegister &&
             is_malloc_word(arch::dwarf_register(regs, arch::kDwarfReturnAddress)));
        if (!is_malloc(arch::pc(regs)) &&
            !(is_in_module_of_malloc(arch::pc(regs)) && returns_to_malloc)) {
            return;
        }
        thread->malloc_words.assign(stack.begin(), stack.end());
        thread->malloc_frames_end = sp + stack.size_bytes() + 1;
    }

    [[nodiscard]] bool is_in_module_of_malloc(CodeAddr pc) const {
        const Module* module = modules_.find(pc);
        return module != nullptr && module == modules_.find(CodeAddr(code_.front().begin));
    }

    [[nodiscard]] bool is_malloc(CodeAddr code) const {
        return std::any_of(code_.begin(), code_.end(),
                           [code](const AddrRange& range) { return range.contains(code.value()); });
    }

    Target& target_;
    const ModuleMap& modules_;
    std::span<const AddrRange> code_;
    ThreadFrames kind_;
    Unwinder unwinder_;
};

} // namespace

std::vector<ThreadView> look_at_threads(Target& target, std::span<const Tid> threads,
                                        const ModuleMap& modules, std::span<const AddrRange> code,
                                        ThreadFrames kind) {
    MallocFrames frames(target, modules, code, kind);
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
        thread.is_asleep = target.was_asleep(tid, regs);
        if (kind != ThreadFrames::not_asked_for) {
            frames.find(regs, &thread);
        }
    }
    return result;
}

} // namespace memleax

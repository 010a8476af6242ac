// SPDX-License-Identifier: GPL-3.0-or-later
#include "page_references.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "memleax/proc/modules.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/robust_list.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/unwind/unwound_stack.hpp"

namespace memleax {

namespace {

/// More of a stack than any program uses that runs signal handlers on it.
constexpr std::uint64_t kMostStack = 16ULL << 20;

} // namespace

class ReferenceSearch::Stacks {
  public:
    Stacks(Target& target, std::span<const AddrRange> pages) : target_(target), pages_(pages) {}

    /// From there on; `own_data`: a place in the thread's own data, 0 if none is known.
    std::optional<AddrRange> search(RemoteAddr sp, std::uint64_t own_data) {
        const Mapping* mapping = find_mapping(sp);
        if (mapping == nullptr) {
            read_mappings(); // it may be newer than what was read
            mapping = find_mapping(sp);
        }
        if (mapping == nullptr) {
            return std::nullopt;
        }
        const std::uint64_t begin = sp.value() & ~7ULL;
        // A thread's own data is at its stack's end (but for the first one's); behind it may be
        // another's stack, with frames that mean nothing.
        const bool is_bound = own_data > sp.value() && mapping->range.contains(own_data);
        const std::uint64_t end = is_bound ? own_data : mapping->range.end;
        stack_.resize(std::min(end - begin, kMostStack));
        stack_.resize(target_.memory().try_read(RemoteAddr(begin), stack_));
        for (std::size_t at = arch::kSignalFramePcOffset + arch::kSignalFrameReturnWord;
             at + sizeof(std::uint64_t) <= stack_.size(); at += sizeof(std::uint64_t)) {
            const std::uint64_t value = word(at);
            const auto page =
                std::find_if(pages_.begin(), pages_.end(),
                             [value](const AddrRange& range) { return range.contains(value); });
            if (page != pages_.end() && in_signal_frame(at)) {
                return *page;
            }
        }
        return std::nullopt;
    }

  private:
    void read_mappings() {
        if (auto maps = read_maps(target_.pid())) {
            maps_ = *std::move(maps);
        }
    }
    [[nodiscard]] const Mapping* find_mapping(RemoteAddr sp) const {
        const auto mapping = std::find_if(maps_.begin(), maps_.end(),
                                          [sp](const Mapping& m) { return m.range.contains(sp); });
        return mapping == maps_.end() ? nullptr : &*mapping;
    }
    [[nodiscard]] std::uint64_t word(std::size_t at) const {
        std::uint64_t value = 0;
        std::memcpy(&value, &stack_[at], sizeof value);
        return value;
    }
    /// Is this word the pc in a signal frame?
    [[nodiscard]] bool in_signal_frame(std::size_t at) {
        const std::size_t begin = at - arch::kSignalFramePcOffset;
        return returns_from_signal(begin) &&
               arch::looks_like_signal_frame(std::span(stack_).subspan(begin)) && !is_of_a_hit(at);
    }

    /// Does the address of the code that a handler returns to stand before it, if that is its
    /// place?
    [[nodiscard]] bool returns_from_signal(std::size_t begin) {
        if constexpr (arch::kSignalFrameReturnWord != 0) {
            const std::uint64_t restorer = word(begin - arch::kSignalFrameReturnWord);
            std::array<std::byte, 16> code{};
            const std::size_t got = target_.memory().try_read(RemoteAddr(restorer), code);
            return arch::is_signal_return_code(std::span(code).first(got));
        } else {
            return true;
        }
    }

    /// What our handler has been called with, and left long ago.
    [[nodiscard]] bool is_of_a_hit(std::size_t at) const {
        siginfo_t info{};
        const std::size_t from = at - arch::kSignalFramePcOffset + arch::kSignalFrameInfoOffset;
        if (from + sizeof info > stack_.size()) {
            return false;
        }
        std::memcpy(&info, &stack_[from], sizeof info);
        return info.si_signo == SIGTRAP && arch::is_breakpoint_signal_code(info.si_code);
    }

    Target& target_;
    std::span<const AddrRange> pages_;
    std::vector<Mapping> maps_;
    std::vector<std::byte> stack_;
};

std::optional<arch::Registers> known_registers(const Target& target, Tid tid) {
    arch::Registers regs;
    if (target.is_stopped(tid)) {
        return StoppedThread(tid).get_registers(&regs) ? std::optional(regs) : std::nullopt;
    }
    const auto kernel = try_read_kernel_state(target.pid(), tid);
    if (!kernel || !kernel->system_call) {
        return std::nullopt;
    }
    std::memset(&regs, 1, sizeof regs);
    arch::set_pc(regs, kernel->pc);
    arch::set_sp(regs, kernel->sp);
    return regs;
}

ReferenceSearch::ReferenceSearch(Target& target, std::span<const AddrRange> pages,
                                 UnwinderSource unwinder)
    : target_(target), pages_(pages), unwinder_(std::move(unwinder)),
      stacks_(std::make_unique<Stacks>(target, pages)) {}

ReferenceSearch::~ReferenceSearch() = default;

std::optional<AddrRange> ReferenceSearch::find(Tid tid) {
    const auto sp = target_.stack_pointer(tid);
    arch::Registers regs;
    const bool is_known = target_.is_stopped(tid) && StoppedThread(tid).get_registers(&regs);
    const auto page = sp ? stacks_->search(*sp, is_known ? StoppedThread(tid).thread_pointer(regs)
                                                         : robust_list_head(tid))
                         : std::nullopt;
    return page && !leads_past(tid) ? page : std::nullopt;
}

bool ReferenceSearch::leads_past(Tid tid) {
    constexpr unsigned kMostFrames = 4096;
    const auto regs = known_registers(target_, tid);
    if (!regs) {
        return false;
    }
    UnwoundStack stack;
    unwinder_().unwind(*regs, kMostFrames, &stack);
    return stack.end == StackEnd::outermost && stack.behind_own_frame == 0 &&
           std::none_of(stack.frames.begin(), stack.frames.end(), [this](FrameAddress frame) {
               return std::any_of(pages_.begin(), pages_.end(), [frame](const AddrRange& page) {
                   return page.contains(frame.pc());
               });
           });
}

bool refers_to(Target& target, Tid tid, std::span<const AddrRange> pages,
               const UnwinderSource& unwinder) {
    return ReferenceSearch(target, pages, unwinder).find(tid).has_value();
}

std::optional<PageReference> find_reference(Target& target, std::span<const AddrRange> pages,
                                            const UnwinderSource& unwinder,
                                            const std::set<Tid>& are_out) {
    ReferenceSearch search(target, pages, unwinder);
    for (const auto& [tid, thread] : target.threads()) {
        if (const auto page = are_out.contains(tid) ? std::nullopt : search.find(tid)) {
            return PageReference{tid, *page};
        }
    }
    return std::nullopt;
}

} // namespace memleax

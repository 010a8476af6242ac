// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

/// What a stopped thread has in its hands.
struct ThreadView {
    Tid tid;
    std::vector<std::uint64_t> registers; ///< all words of them
    std::uint64_t sp = 0;
    std::uint64_t thread_pointer = 0;
    /// It is in a system call that our stop has interrupted.
    bool is_asleep = false;
    /// It is in a function of malloc's, whose frames are from sp up to there; 0 if it is not. What
    /// they have of a block may be its chunk's address only.
    std::uint64_t malloc_frames_end = 0;
    std::vector<std::uint64_t> malloc_words; ///< what is in these frames
};

/// How malloc's frames are told from others.
enum class ThreadFrames {
    by_unwinding,
    /// Its code has no unwind tables: what looks like a return address into it, near the top of the
    /// stack, is one.
    without_tables,
    not_asked_for ///< nobody is taken to be in malloc
};

/// `code` is malloc's (its entry points, where frames are unwound); without any, each thread's
/// innermost frames are taken for such. Nothing for threads that have been killed meanwhile.
std::vector<ThreadView> look_at_threads(Target& target, std::span<const Tid> threads,
                                        const ModuleMap& modules, std::span<const AddrRange> code,
                                        ThreadFrames frames = ThreadFrames::by_unwinding);

} // namespace memleax

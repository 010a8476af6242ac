// SPDX-License-Identifier: GPL-3.0-or-later
/// What a C library keeps for each thread, at its thread pointer or before it: at the upper end of
/// its stack if the library has made that. Offsets are in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "thread_area.hpp"

namespace memleax {

struct ThreadBlock {
    /// A word at `at` is the block's own address, and `points_to`, also when its thread has ended.
    struct OwnAddress {
        std::uint64_t at = 0;
        std::uint64_t points_to = 0;
    };
    std::span<const OwnAddress> own_addresses; ///< none: nothing is known of such blocks
    std::uint64_t tid = 0;                     ///< int; 0 when the thread has ended, or -1
    std::uint64_t alignment = 0;
    std::uint64_t bytes = 0; ///< at least
    /// Where the address of the thread's table of dynamic TLS (dtv) stands, from the thread
    /// pointer, if malloc has given the table; and how far behind the begin of malloc's block that
    /// points.
    std::optional<std::uint64_t> dtv;
    std::uint64_t dtv_offset = 0;
    /// From the block's begin to the thread pointer. 0: it begins there, or that differs between
    /// versions, and a living thread is asked.
    std::uint64_t pointer_at = 0;
};

namespace glibc {
/// struct pthread (2.31 to 2.41). What comes before `tid` is the CPU's tcbhead_t, or room for one,
/// and two pointers; -1: somebody has waited for its end. Behind it is the list of robust mutexes,
/// a pointer to itself if it is empty. dtv[0] is the generation, dtv[-1] the length: the block
/// begins there.
inline constexpr std::uint64_t kTid = arch::kTlsIsAbovePointer ? 208 : 720;
inline constexpr std::uint64_t kRobustHead = kTid + 16;
inline constexpr ThreadBlock::OwnAddress kOwnAddresses[]{{kRobustHead, kRobustHead}};
inline constexpr ThreadBlock kThreadBlock{.own_addresses = kOwnAddresses,
                                          .tid = kTid,
                                          .alignment = 16,
                                          .bytes = kRobustHead + sizeof(std::uint64_t),
                                          .dtv = arch::kDtvAt,
                                          .dtv_offset = 16};
} // namespace glibc

namespace musl {
/// struct pthread of 1.2.2 to 1.2.5 (src/internal/pthread_impl.h; in 1.2.1 an unused word stands
/// where tid is, and on arm64 the end is another). One that has ended is alone in its list. Where
/// the thread pointer is its begin, it has dtv and canary among its first words, else as its last
/// ones. Its dtv lies in the stack's mapping.
inline constexpr std::uint64_t kBytes = 200;
inline constexpr std::uint64_t kPrevious = arch::kTlsIsAbovePointer ? 8 : 16;
inline constexpr std::uint64_t kNext = kPrevious + 8;
inline constexpr ThreadBlock::OwnAddress kOwnAddresses[]{{0, 0}, {kPrevious, 0}, {kNext, 0}};
inline constexpr ThreadBlock kThreadBlock{.own_addresses = kOwnAddresses,
                                          .tid = arch::kTlsIsAbovePointer ? 32 : 48,
                                          .alignment = 8,
                                          .bytes = kBytes,
                                          .dtv = {},
                                          .pointer_at = arch::kTlsIsAbovePointer ? kBytes : 0};
} // namespace musl

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
/// What a C library keeps for each thread, at its thread pointer: at the upper end of its stack if
/// the library has made that. Offsets are in bytes, on x86_64.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace memleax {

struct ThreadBlock {
    /// Words that are the block's own address, in one whose thread has ended.
    std::span<const std::uint64_t> own_address;
    std::uint64_t tid = 0; ///< int; 0 when the thread has ended
    std::uint64_t alignment = 0;
    std::uint64_t bytes = 0;
    /// Where the address of the thread's table of dynamic TLS (dtv) stands, if malloc has given
    /// the table; and how far behind the begin of malloc's block that points.
    std::optional<std::uint64_t> dtv;
    std::uint64_t dtv_offset = 0;
};

namespace glibc {
/// struct pthread of 2.36. dtv[0] is the generation, dtv[-1] the length: the block begins there.
inline constexpr std::uint64_t kOwnAddress[]{0, 16};
inline constexpr ThreadBlock kThreadBlock{.own_address = kOwnAddress,
                                          .tid = 720,
                                          .alignment = 64,
                                          .bytes = 2368,
                                          .dtv = 8,
                                          .dtv_offset = 16};
} // namespace glibc

namespace musl {
/// struct pthread of 1.2.2 to 1.2.5 (src/internal/pthread_impl.h; in 1.2.1 an unused word stands
/// where tid is). One that has ended is alone in its list. Its dtv lies in the stack's mapping.
inline constexpr std::uint64_t kOwnAddress[]{0, 16, 24};
inline constexpr ThreadBlock kThreadBlock{
    .own_address = kOwnAddress, .tid = 48, .alignment = 8, .bytes = 200, .dtv = {}};
} // namespace musl

} // namespace memleax

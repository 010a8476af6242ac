// SPDX-License-Identifier: GPL-3.0-or-later
#include <array>

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "memleax/target/target.hpp"

namespace memleax {

// The vector registers' halves are at multiples of 8 in each of these: the layouts of FXSAVE and
// XSAVE (Intel's manual, volume 1, section 13.4), struct user_fpsimd_state on arm64.
std::vector<std::uint64_t> Target::register_words(Tid tid) const {
    constexpr std::size_t kMostWords = 2048; // AMX's tiles take 8 KiB
#if defined(NT_X86_XSTATE) && defined(__x86_64__)
    constexpr std::array kSets{NT_PRSTATUS, NT_X86_XSTATE, NT_PRFPREG};
#else
    constexpr std::array kSets{NT_PRSTATUS, NT_PRFPREG};
#endif
    std::vector<std::uint64_t> result;
    std::array<std::uint64_t, kMostWords> words{};
    for (const int set : kSets) {
        iovec io{words.data(), sizeof words};
        if (ptrace(PTRACE_GETREGSET, tid.value(), set, &io) == 0) {
            result.insert(result.end(), words.begin(),
                          words.begin() +
                              static_cast<std::ptrdiff_t>(io.iov_len / sizeof words[0]));
        } else if (set == NT_PRSTATUS) {
            return {};
        }
    }
    return result;
}

} // namespace memleax

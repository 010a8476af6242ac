// SPDX-License-Identifier: GPL-3.0-or-later
#include <array>

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "memleax/target/target.hpp"

namespace memleax {

std::vector<std::uint64_t> Target::register_words(Tid tid) const {
    constexpr std::size_t kMostWords = 2048; // AMX's tiles take 8 KiB
    std::vector<std::uint64_t> result;
    std::array<std::uint64_t, kMostWords> words{};
    for (const int set : arch::kPointerRegsets) {
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

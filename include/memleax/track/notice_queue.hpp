// SPDX-License-Identifier: GPL-3.0-or-later
/// What has come up in an account, until somebody asks.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/track/memory_error.hpp"

namespace memleax {

/// Something to tell the user while the session runs.
struct Notice {
    enum class Kind {
        expired,               ///< the first, tenth, hundredth (`count`) of a stack; its `size`
        expired_freed,         ///< `age` ns
        too_many_expired_free, ///< this stack is not mentioned any more
        memory_error,          ///< `error`; its first time, its tenth, its hundredth, ...
        block_limit,           ///< memory_block_max reached at this stack: the session is to end
        stack_limit            ///< call_stack_max reached: likewise
    };
    Kind kind{};
    StackId stack = kNoStack;
    std::uint32_t id = 0; ///< of the stack, as people see it
    std::uint64_t size = 0;
    std::uint64_t count = 0;
    std::int64_t age = 0;
    MemoryError error{};
};

/// Bounded: who lets blocks expire faster than they can be printed is known by its first notices.
class NoticeQueue {
  public:
    /// Not `all`: only those of limits are taken.
    explicit NoticeQueue(bool all) : all_(all) {}
    /// Always taken are those of limits. A stack's first expiry is taken whenever others may be: it
    /// comes with the backtrace, without which the later ones mean nothing. The others only as long
    /// as there are not too many.
    void add(const Notice& notice);
    [[nodiscard]] std::vector<Notice> take() { return std::exchange(notices_, {}); }
    [[nodiscard]] bool empty() const { return notices_.empty(); }

  private:
    bool all_;
    std::vector<Notice> notices_;
};

} // namespace memleax

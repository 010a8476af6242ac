// SPDX-License-Identifier: GPL-3.0-or-later
/// How failure is told. Three kinds: *expected* (a Result that the caller looks at), *the user's to
/// mend* (an Error that travels up to main with what was tried, on whom, errno, and what to do),
/// *our bug* (MEMLEAX_ASSERT, on in release builds too).
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace memleax {

/// What went wrong, in a sentence for the user.
class Error {
  public:
    /// `what` says what was tried and on whom; `errnum` is an errno value or 0.
    explicit Error(std::string what, int errnum = 0);
    /// Adds what the user can do about it; shown after the message.
    Error&& with_advice(std::string advice) &&;
    /// Puts the larger task before the message: "cannot watch 42: <message>".
    Error&& while_doing(const std::string& task) &&;

    [[nodiscard]] int errnum() const { return errnum_; }
    /// One line: what, ": strerror", "; advice".
    [[nodiscard]] std::string message() const;
    /// The same without strerror, of an errno that only tells our own code what to do.
    [[nodiscard]] std::string reason() const;

  private:
    [[nodiscard]] std::string text(const std::string& why) const;

    std::string what_;
    std::string advice_;
    int errnum_ = 0;
};

/// Is this result of a system call, as the kernel leaves it in a register, an error (-errno)?
[[nodiscard]] constexpr bool is_errno(long result) {
    constexpr long kMostErrno = 4095; // MAX_ERRNO (include/linux/err.h)
    return result < 0 && result >= -kMostErrno;
}

/// A value or an Error. Our own: clang 14 with libstdc++ 12 has no std::expected.
template <class T> class [[nodiscard]] Result {
  public:
    Result(T value)
        : state_(std::in_place_index<0>, std::move(value)) {} // NOLINT(google-explicit-constructor)
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {} // NOLINT

    [[nodiscard]] bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }
    T& operator*() & { return std::get<0>(state_); }
    const T& operator*() const& { return std::get<0>(state_); }
    T&& operator*() && { return std::get<0>(std::move(state_)); }
    T* operator->() { return &std::get<0>(state_); }
    const T* operator->() const { return &std::get<0>(state_); }
    [[nodiscard]] const Error& error() const& { return std::get<1>(state_); }
    [[nodiscard]] Error&& error() && { return std::get<1>(std::move(state_)); }

  private:
    std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <> class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : state_(std::move(error)) {} // NOLINT(google-explicit-constructor)
    [[nodiscard]] bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }
    [[nodiscard]] const Error& error() const& { return std::get<1>(state_); }
    [[nodiscard]] Error&& error() && { return std::get<1>(std::move(state_)); }

  private:
    std::variant<std::monostate, Error> state_;
};

/// Throws AssertionFailure, so that the destructors on the way restore the target.
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

} // namespace memleax

/// A broken invariant of ours. Stays on in release builds.
#define MEMLEAX_ASSERT(expression)                                                                 \
    (static_cast<bool>(expression) ? static_cast<void>(0)                                          \
                                   : ::memleax::assertion_failed(#expression, __FILE__, __LINE__))

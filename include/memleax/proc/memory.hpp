// SPDX-License-Identifier: GPL-3.0-or-later
/// Reading the target's memory, without saying how: unwinding and module parsing see this only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "memleax/base/types.hpp"

namespace memleax {

/// Bytes of the target as its own program text has them: an implementation hides the breakpoints
/// that we put there.
class MemoryReader {
  public:
    virtual ~MemoryReader() = default;

    /// Reads up to `out.size()` bytes from `from` on, and returns how many could be read: fewer
    /// where the range runs into an unmapped page, 0 where the first byte is not readable.
    virtual std::size_t try_read(RemoteAddr from, std::span<std::byte> out) = 0;

    /// One object, or nothing: a short read is not a success.
    template <class T> std::optional<T> try_read_object(RemoteAddr from) {
        static_assert(std::is_trivially_copyable_v<T>);
        T value{};
        if (try_read(from, std::as_writable_bytes(std::span(&value, 1))) != sizeof(T)) {
            return std::nullopt;
        }
        return value;
    }
};

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
/// What a person reads in a backtrace. Apart from the symbolizer, so that reports and their tests
/// need no libdw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "memleax/base/types.hpp"

namespace memleax {

/// One line of a backtrace. A machine frame with inlined calls gives several, innermost first.
struct SourceFrame {
    CodeAddr pc;          ///< as in the stack (a return address for outer frames)
    std::string module;   ///< last component of the module's path; "" if the pc is in none
    std::string function; ///< demangled; "" if unknown
    std::optional<std::uint64_t> offset; ///< pc - start of the function; absent for inlined frames
    /// pc - load bias, as addr2line(1) wants it; where the function is not known only.
    std::optional<std::uint64_t> module_offset;
    std::string file;               ///< as the compiler recorded it; "" if unknown
    unsigned line = 0;              ///< 0 if unknown
    bool inlined = false;           ///< this function was inlined into the next frame
    bool is_return_address = false; ///< so is pc; the call is before it

    /// For the address that it was looked up with.
    [[nodiscard]] FrameAddress address() const {
        return is_return_address ? FrameAddress::return_address(pc) : FrameAddress::exact(pc);
    }
    friend bool operator==(const SourceFrame&, const SourceFrame&) = default;
};

/// What one machine frame resolves to: the calls inlined there, innermost first, and at last the
/// function itself; never null, never empty. Shared, because 10^5 call stacks go through few
/// different addresses.
using ResolvedFrame = std::shared_ptr<const std::vector<SourceFrame>>;

/// A backtrace as people read it: a range of SourceFrames, innermost first.
class Backtrace {
  public:
    Backtrace() = default;
    explicit Backtrace(std::vector<ResolvedFrame> frames) : frames_(std::move(frames)) {}
    /// Frames up to one that is not inlined make up a machine frame.
    Backtrace(std::initializer_list<SourceFrame> frames);

    class Iterator {
      public:
        using iterator_category = std::forward_iterator_tag;
        using value_type = SourceFrame;
        using difference_type = std::ptrdiff_t;
        using pointer = const SourceFrame*;
        using reference = const SourceFrame&;
        Iterator() = default;
        explicit Iterator(const ResolvedFrame* frame) : frame_(frame) {}
        reference operator*() const { return (**frame_)[index_]; }
        pointer operator->() const { return &**this; }
        Iterator& operator++() {
            if (++index_ == (*frame_)->size()) {
                ++frame_;
                index_ = 0;
            }
            return *this;
        }
        Iterator operator++(int) {
            Iterator before = *this;
            ++*this;
            return before;
        }
        friend bool operator==(const Iterator&, const Iterator&) = default;

      private:
        const ResolvedFrame* frame_ = nullptr;
        std::size_t index_ = 0; ///< within *frame_
    };
    [[nodiscard]] Iterator begin() const { return Iterator(frames_.data()); }
    [[nodiscard]] Iterator end() const { return Iterator(frames_.data() + frames_.size()); }
    [[nodiscard]] bool empty() const { return frames_.empty(); }
    /// Where its frame `index` stands, counted from the innermost one; there must be so many.
    [[nodiscard]] Iterator at(std::size_t index) const {
        return std::next(begin(), static_cast<std::ptrdiff_t>(index));
    }

    [[nodiscard]] std::span<const ResolvedFrame> machine_frames() const { return frames_; }

  private:
    std::vector<ResolvedFrame> frames_;
};

} // namespace memleax

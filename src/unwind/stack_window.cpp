// SPDX-License-Identifier: GPL-3.0-or-later
#include "stack_window.hpp"

#include <algorithm>

namespace memleax {

void StackWindow::start(RemoteAddr sp) {
    moved_ = false;
    begin_at(sp, usual_);
}

void StackWindow::begin_at(RemoteAddr at, std::size_t size) {
    begin_ = at.value();
    size_ = 0;
    words_end_ = 0;
    deepest_ = 0;
    at_end_ = false;
    fill(size);
}

void StackWindow::finish() {
    if (moved_) {
        return;
    }
    const std::size_t needed = std::clamp<std::size_t>((deepest_ + 8 + 127) & ~std::uint64_t{127},
                                                       kMinSize, kMaxFirstSize);
    // Up at once, since another read costs more than some bytes too many; down by and by.
    usual_ = needed >= usual_ ? needed : std::max(needed, usual_ - usual_ / 64);
}

void StackWindow::fill(std::size_t size) {
    if (at_end_ || size <= size_) {
        return;
    }
    if (buffer_.size() < size) {
        buffer_.resize(size);
    }
    ++reads_;
    const std::size_t wanted = size - size_;
    const std::size_t got =
        memory_.try_read(RemoteAddr(begin_ + size_), std::span(buffer_.data() + size_, wanted));
    size_ += std::min(got, wanted);
    at_end_ = got < wanted;
    words_end_ = size_ >= sizeof(std::uint64_t) ? size_ - (sizeof(std::uint64_t) - 1) : 0;
}

bool StackWindow::cover(RemoteAddr at, std::size_t size) {
    const std::uint64_t offset = at.value() - begin_;
    if (offset <= kMaxSize - size) { // below the window the difference wraps
        const std::size_t end = offset + size;
        if (end > size_) {
            fill(std::min(std::max(end + kMinSize, 2 * size_), kMaxSize));
        }
        if (end <= size_) {
            return true;
        }
    }
    // Far away, or behind a gap: stacks, and the pieces of a split one, may lie close together.
    moved_ = true;
    begin_at(at, std::max(usual_, size + kMinSize));
    return size <= size_;
}

std::optional<std::uint64_t> StackWindow::stack_word_outside(RemoteAddr at) {
    if (!cover(at, sizeof(std::uint64_t))) {
        return std::nullopt;
    }
    const std::uint64_t offset = at.value() - begin_;
    deepest_ = std::max(deepest_, offset);
    return load(offset);
}

bool StackWindow::stack_bytes(RemoteAddr from, std::span<std::byte> out) {
    if (!cover(from, out.size())) {
        return false;
    }
    const std::uint64_t offset = from.value() - begin_;
    deepest_ = std::max(deepest_, offset + out.size());
    std::memcpy(out.data(), buffer_.data() + offset, out.size());
    return true;
}

bool StackWindow::is_other_stack(RemoteAddr low, RemoteAddr high) {
    const std::uint64_t distance = high.value() - low.value();
    if (distance > kFarApart) {
        return true;
    }
    std::vector<std::byte> between(distance);
    ++reads_;
    return memory_.try_read(low, between) < distance;
}

std::optional<std::uint64_t> StackWindow::word(RemoteAddr at) {
    const std::uint64_t offset = at.value() - begin_;
    if (offset < words_end_) {
        return load(offset);
    }
    ++reads_;
    return memory_.try_read_object<std::uint64_t>(at);
}

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
#include "frame_tree.hpp"

#include <tuple>

#include <absl/hash/hash.h>

namespace memleax {

std::size_t FrameTree::ContentHash::operator()(const SourceFrame* frame) const {
    // Frames of one address differ in their functions only.
    return absl::HashOf(frame->pc, frame->function);
}

std::uint32_t FrameTree::number(const SourceFrame& frame) {
    const auto [entry, is_new] =
        numbers_.try_emplace(&frame, static_cast<std::uint32_t>(frames_.size()));
    if (is_new) {
        frames_.push_back(&frame);
    }
    return entry->second;
}

std::uint32_t FrameTree::insert(const Backtrace& backtrace, const SourceFrame* root) {
    path_.clear();
    for (const SourceFrame& frame : backtrace) {
        path_.push_back(number(frame));
    }
    if (root != nullptr) {
        path_.push_back(number(*root));
    }
    std::uint32_t node = 0;
    for (auto frame = path_.rbegin(); frame != path_.rend(); ++frame) {
        const auto next = static_cast<std::uint32_t>(nodes_.size() + 1);
        const auto [child, is_new] =
            children_.try_emplace(std::uint64_t{node} << 32 | *frame, next);
        if (is_new) {
            nodes_.push_back({node, *frame});
        }
        node = child->second;
    }
    return node;
}

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/wrappers.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "function_name.hpp"
#include "known_wrappers.hpp"
#include "memleax/report/frame_pattern.hpp"
#include "memleax/report/own_frame.hpp"

namespace memleax {

namespace {

/// Fewer call stacks show nothing.
constexpr std::size_t kLeastStacks = 16;
/// One function that leaks may be reached on some ways; a wrapper has callers everywhere.
constexpr std::size_t kLeastCallers = 8;
/// ... and allocates in one place, or in one each for malloc, calloc and realloc.
constexpr std::size_t kCallersOfAPlace = 4;
/// zmalloc, then sdsnewlen, then ...
constexpr unsigned kMaxLevels = 4;

/// A function of the program, or, where its name is not known, a place in its code.
std::string key_of(const SourceFrame& frame) {
    return frame.function.empty() ? fmt::format("{} {:x}", frame.module, frame.pc.value())
                                  : fmt::format("{} {}", frame.module, bare_name(frame.function));
}

/// Within its function.
std::string place_in(const SourceFrame& frame) {
    return frame.line == 0 ? fmt::format("{:x}", frame.pc.value())
                           : fmt::format("{}:{}", frame.file, frame.line);
}

/// What the call stacks say of a function that is the innermost one of the program in them.
struct Candidate {
    std::size_t stacks = 0;
    std::set<std::string> places;
    std::map<std::string, std::size_t> callers; ///< in how many of the stacks

    [[nodiscard]] bool is_wrapper(std::size_t all_stacks) const {
        if (stacks < kLeastStacks || stacks * 2 <= all_stacks || callers.size() < kLeastCallers ||
            places.size() * kCallersOfAPlace > callers.size()) {
            return false;
        }
        return std::all_of(callers.begin(), callers.end(),
                           [this](const auto& caller) { return caller.second * 2 <= stacks; });
    }
};

/// The next function of the program that called this frame, past what it calls itself.
const SourceFrame* caller_of(const Backtrace& frames, std::size_t index) {
    auto frame = frames.at(index);
    const std::string own = key_of(*frame);
    for (++frame; frame != frames.end(); ++frame) {
        if (is_own_code(*frame) && key_of(*frame) != own) {
            return &*frame;
        }
    }
    return nullptr;
}

} // namespace

bool Wrappers::contains(const SourceFrame& frame) const {
    return names(frame) || (!learned_.empty() && learned_.contains(key_of(frame)));
}

bool Wrappers::names(const SourceFrame& frame) const {
    return (!frame.function.empty() && is_known_wrapper(std::string(bare_name(frame.function)))) ||
           std::any_of(globs_.begin(), globs_.end(),
                       [&frame](const std::string& glob) { return matches_frame(glob, frame); });
}

void Wrappers::learn(std::span<const Backtrace> stacks) {
    learned_.clear();
    for (unsigned level = 0; level < kMaxLevels; ++level) {
        std::map<std::string, Candidate> candidates;
        for (const Backtrace& frames : stacks) {
            const std::size_t own = own_frame(frames, *this);
            const SourceFrame* caller = frames.empty() ? nullptr : caller_of(frames, own);
            if (caller == nullptr) {
                continue; // nobody else to name
            }
            const SourceFrame& frame = *frames.at(own);
            Candidate& candidate = candidates[key_of(frame)];
            ++candidate.stacks;
            candidate.places.insert(place_in(frame));
            ++candidate.callers[key_of(*caller)];
        }
        const auto found =
            std::find_if(candidates.begin(), candidates.end(), [&stacks](const auto& each) {
                return each.second.is_wrapper(stacks.size());
            });
        if (found == candidates.end()) {
            return;
        }
        learned_.insert(found->first);
    }
}

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
#include "told_calls.hpp"

#include <algorithm>

namespace memleax {

ToldCalls::Call ToldCalls::call_at(CodeAddr place, const arch::Registers& regs) {
    Call call{place, arch::sp(regs), {}};
    for (unsigned n = 0; n < call.arguments.size(); ++n) {
        call.arguments.at(n) = arch::argument(regs, n);
    }
    return call;
}

bool ToldCalls::has(Tid tid, CodeAddr place, const arch::Registers& regs) const {
    const auto it = calls_.find(tid);
    return it != calls_.end() && std::find(it->second.begin(), it->second.end(),
                                           call_at(place, regs)) != it->second.end();
}

void ToldCalls::add(Tid tid, const arch::Registers& regs) {
    std::vector<Call>& calls = calls_[tid];
    const Call call = call_at(arch::pc(regs), regs);
    if (std::find(calls.begin(), calls.end(), call) != calls.end()) {
        return; // it has come again, and met another signal before it was hit
    }
    if (calls.size() == kMost) {
        calls.erase(calls.begin());
    }
    calls.push_back(call);
}

bool ToldCalls::take(Tid tid, CodeAddr place, const arch::Registers& regs) {
    const auto it = calls_.find(tid);
    if (it == calls_.end()) {
        return false;
    }
    std::vector<Call>& calls = it->second;
    const auto call = std::find(calls.begin(), calls.end(), call_at(place, regs));
    const bool is_told = call != calls.end();
    calls.erase(call, calls.end());
    if (calls.empty()) {
        calls_.erase(it);
    }
    return is_told;
}

void ToldCalls::forget_left(Tid tid, const arch::Registers& regs, const UnwoundStack& walked) {
    const auto it = calls_.find(tid);
    if (it == calls_.end()) {
        return;
    }
    std::erase_if(it->second, [&](const Call& call) {
        // Of a walk that has no certain end, what is further out is not known.
        const bool may_be_further_out =
            walked.end != StackEnd::outermost && arch::sp(regs) < call.sp;
        return !may_be_further_out && std::none_of(walked.frames.begin() + 1, walked.frames.end(),
                                                   [&call](FrameAddress frame) {
                                                       return !frame.is_return_address() &&
                                                              frame.pc() == call.place;
                                                   });
    });
    if (it->second.empty()) {
        calls_.erase(it);
    }
}

void ToldCalls::forget_at(CodeAddr place) {
    absl::erase_if(calls_, [place](auto& thread) {
        std::erase_if(thread.second, [place](const Call& call) { return call.place == place; });
        return thread.second.empty();
    });
}

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
#include "worker_support.hpp"

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memleax/proc/process_info.hpp"

namespace memleax::testing {

using ::testing::IsEmpty;

void SpeakingWorker::start_working() {
    if (!sleeps_) {
        fixture_.process().send("spin");
        EXPECT_EQ(fixture_.process().read_line(), "spinning");
    }
}

void SpeakingWorker::stop_working() {
    EXPECT_THAT(fixture_.ask(sleeps_ ? "go" : "stop").failures, IsEmpty());
}

void SpeakingWorker::end() {
    EXPECT_EQ(fixture_.quit(), 0);
}

RacingWorker::RacingWorker(int threads) : fixture_("malloc_race", {std::to_string(threads)}) {}

void RacingWorker::start_working() {
    rounds_ = fixture_.ask("count").counts.at("rounds");
}

void RacingWorker::stop_working() {
    // Each of its threads has had a CPU by then, or will have one.
    while (fixture_.ask("count").counts.at("rounds") <= rounds_) {
    }
}

void RacingWorker::end() {
    EXPECT_EQ(fixture_.quit(), 0);
}

std::set<pid_t> children_of(pid_t pid) {
    std::set<pid_t> result;
    for (const Tid tid : list_threads(Tid(pid))) {
        std::ifstream children(fmt::format("/proc/{}/task/{}/children", pid, tid.value()));
        for (pid_t child = 0; children >> child;) {
            result.insert(child);
        }
    }
    return result;
}

} // namespace memleax::testing

// SPDX-License-Identifier: GPL-3.0-or-later
// memleax comes and goes, at random moments, while sixteen threads of the target allocate, signals
// are queued and children are born. After each visit the target is as it was, and of the blocks
// that were made and freed during a visit none was missed and none was invented.
//
// 16 visits if MEMLEAX_STRESS_COUNT is not set; 63 makes it 1,008, which take some minutes.
#include <algorithm>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>

#include "leaks_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

std::vector<std::string> open_descriptors(pid_t pid) {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid))) {
        std::error_code gone;
        const auto target = std::filesystem::read_symlink(entry.path(), gone);
        result.push_back(entry.path().filename().string() + " " + target.string());
    }
    std::sort(result.begin(), result.end());
    return result;
}

/// So far: "marked" are the blocks that it has made for this.
std::int64_t count_of(const FixtureAnswer& answer, const char* name) {
    const auto count = answer.counts.find(name);
    return count == answer.counts.end() ? 0 : count->second;
}

/// Blocks that a function has allocated, freed and kept, in all its call stacks.
struct Book {
    std::int64_t allocated = 0;
    std::int64_t freed = 0;
    std::int64_t live = 0;
};

Book book_of(const nlohmann::json& report, const std::string& function) {
    Book book;
    for (const auto& stack : report.at("callstacks")) {
        if (allocating_function(stack) == function) {
            book.allocated += stack.at("alloc_blocks").get<std::int64_t>();
            book.freed += stack.at("free_blocks").get<std::int64_t>();
            book.live += stack.at("live_blocks").get<std::int64_t>();
        }
    }
    return book;
}

class ComesAndGoes : public ::testing::Test {
  protected:
    static constexpr std::int64_t kHeldBlocks =
        16 * 4 + 16; ///< fixtures/storm.c; one is on its way

    ComesAndGoes()
        : fixture_("storm"), before_(snapshot()), descriptors_(open_descriptors(fixture_.pid())) {}

    TargetSnapshot snapshot() { return take_snapshot(fixture_.pid(), {"forker", "receiver"}); }

    void pause() {
        const int most = stress_.number_to(2) == 1 ? 10 : 120;
        ::poll(nullptr, 0, stress_.number_to(most + 1) - 1);
    }

    void expect_nothing_missed(const nlohmann::json& report) {
        EXPECT_EQ(report.at("session").at("events").at("double_free"), 0)
            << report.value("errors", nlohmann::json()) << report.at("session");
        // Those whose end was missed would add up.
        EXPECT_LE(book_of(report, "storm_block").live, kHeldBlocks);
    }

    /// The marked blocks of one to three marks, from the first to the last, are within the visit.
    void visit_marks() {
        visited_how_ = "marks";
        Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture_.pid())});
        memleax.wait_until_watching();
        const FixtureAnswer first = marks_;
        const int marks = stress_.number_to(3);
        for (int i = 0; i < marks; ++i) {
            mark();
        }
        pause();
        const auto result = memleax.interrupt_and_finish();
        errors_ = result.errors;
        ASSERT_EQ(result.status, 0) << result.errors;
        const auto report = result.json();
        expect_nothing_missed(report);
        const auto kept = [](const FixtureAnswer& a) {
            const auto leak = a.truth.find("marked_block");
            return leak == a.truth.end() ? 0 : leak->second.blocks;
        };
        const Book book = book_of(report, "marked_block");
        EXPECT_EQ(book.allocated, count_of(marks_, "marked") - count_of(first, "marked"));
        EXPECT_EQ(book.live, kept(marks_) - kept(first));
        EXPECT_EQ(book.freed, count_of(marks_, "marked_freed") - count_of(first, "marked_freed"));
    }

    /// Interrupted at any moment of its life, also while it attaches, and during a mark.
    void visit_and_break_off() {
        visited_how_ = "broken off";
        Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture_.pid())});
        pause();
        fixture_.process().send("mark");
        pause();
        memleax.interrupt();
        marks_ = read_answer(fixture_.process());
        expect_no_failure();
        const auto result = memleax.finish();
        errors_ = result.errors;
        const bool not_begun =
            (WIFSIGNALED(result.status) && WTERMSIG(result.status) == SIGINT) ||
            result.errors == "memleax: error: interrupted before the watching began\n";
        EXPECT_TRUE(result.status == 0 || not_begun) << result.status << result.errors;
    }

    void visit_for_a_time() {
        visited_how_ = "for a time";
        const double time = stress_.number_to(1000) / 1e4;
        Memleax memleax(
            {"-F", "json", "-t", fmt::format("{:.4f}", time), std::to_string(fixture_.pid())});
        const auto result = memleax.finish();
        errors_ = result.errors;
        ASSERT_EQ(result.status, 0) << result.errors;
        expect_nothing_missed(result.json());
    }

    void mark() {
        marks_ = fixture_.ask("mark");
        expect_no_failure();
    }

    void expect_no_failure() {
        EXPECT_THAT(marks_.failures, IsEmpty()) << "visit " << visits_ << ": " << visited_how_;
    }

    Stress stress_{16};
    Fixture fixture_;
    TargetSnapshot before_;
    std::vector<std::string> descriptors_;
    FixtureAnswer marks_;
    std::string errors_; ///< of the last visit
    std::string visited_how_;
    int visits_ = 0;
};

TEST_F(ComesAndGoes, AndNobodyNotices) {
    while (stress_.next()) {
        ++visits_;
        switch (stress_.number_to(3)) {
        case 1:
            visit_marks();
            break;
        case 2:
            visit_and_break_off();
            break;
        default:
            visit_for_a_time();
        }
        EXPECT_THAT(differences(before_, snapshot(), Meanwhile::worked), IsEmpty()) << errors_;
        EXPECT_EQ(open_descriptors(fixture_.pid()), descriptors_);
        marks_ = fixture_.ask("anything wrong?");
        expect_no_failure();
    }
    const FixtureAnswer end = fixture_.ask("end");
    EXPECT_THAT(end.failures, IsEmpty());
    EXPECT_GT(end.counts.at("children"), 0);
    EXPECT_GT(end.counts.at("queued"), 0);
    EXPECT_EQ(fixture_.quit(), 0) << fixture_.process().errors();
    std::cout << fmt::format("{} visits, {} children, {} queued signals, {} marked blocks\n",
                             visits_, end.counts.at("children"), end.counts.at("queued"),
                             count_of(marks_, "marked"));
}

} // namespace
} // namespace memleax::testing

// SPDX-License-Identifier: GPL-3.0-or-later
// A forked copy of a process, while that runs on: it has the memory of its moment, and is the first
// to go when memory goes out.
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include "../src/heap/forked_memory.hpp"
#include "../src/heap/stopped_process.hpp"
#include "limited_group_support.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/target/process_copy.hpp"
#include "process_support.hpp"
#include "worker_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<StoppedProcess> stop(pid_t pid) {
    auto stopped = StoppedProcess::stop(Tid(pid), nullptr);
    if (!stopped) {
        throw std::runtime_error(stopped.error().message());
    }
    return *std::move(stopped);
}

const std::vector<Mapping>& mappings_of(StoppedProcess& process) {
    const auto& mappings = process.mappings();
    if (!mappings) {
        throw std::runtime_error(mappings.error().message());
    }
    return *mappings;
}

/// A process that has been copied, and that nobody stops since. The copy is reaped at the end.
class Copied {
  public:
    explicit Copied(pid_t pid) : pid_(pid) {
        const auto stopped = stop(pid);
        auto copy = ProcessCopy::make(stopped->target(), mappings_of(*stopped));
        if (!copy) {
            throw std::runtime_error(copy.error().message());
        }
        copy_ = *std::move(copy);
    }
    ~Copied() {
        const auto record = copy_->record();
        copy_.reset();
        const auto reaped = reap_copies(pid_, record);
        EXPECT_TRUE(reaped.ok());
    }
    Copied(const Copied&) = delete;
    Copied& operator=(const Copied&) = delete;
    ProcessCopy& copy() { return *copy_; }

  private:
    Tid pid_;
    std::shared_ptr<ProcessCopy> copy_;
};

/// The largest mapping.
AddrRange largest_of(pid_t pid) {
    AddrRange largest{};
    const auto mappings = read_maps(Tid(pid));
    for (const Mapping& mapping : *mappings) {
        if (mapping.writable && mapping.range.size() > largest.size()) {
            largest = mapping.range;
        }
    }
    return largest;
}

std::optional<int> byte_at(ProcessCopy& copy, std::uint64_t at) {
    std::array<std::byte, 1> byte{};
    return copy.try_read(RemoteAddr(at), byte) == 1 ? std::optional(std::to_integer<int>(byte[0]))
                                                    : std::nullopt;
}

TEST(ProcessCopyTest, HasTheMemoryOfItsMoment) {
    Fixture fixture("grower");
    fixture.ask("grow 8");
    const AddrRange grown = largest_of(fixture.pid());
    ASSERT_GE(grown.size(), 8U << 20);
    {
        Copied copied(fixture.pid());
        fixture.ask("shrink");
        EXPECT_EQ(byte_at(copied.copy(), grown.begin + (4 << 20)), 1);
        EXPECT_EQ(children_of(fixture.pid()), std::set{copied.copy().pid().value()});
        copied.copy().kill();
        copied.copy().end();
        EXPECT_EQ(byte_at(copied.copy(), grown.begin + (4 << 20)), std::nullopt);
    }
    EXPECT_THAT(children_of(fixture.pid()), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// What has been read of it by then may be another process's.
TEST(ProcessCopyTest, IsNoPictureIfSomebodyKillsIt) {
    Fixture fixture("grower");
    fixture.ask("grow 8");
    {
        const auto stopped = stop(fixture.pid());
        auto room = StoredMemory::reserve(Tid(fixture.pid()), 1U << 30);
        ASSERT_TRUE(room);
        PresentPages pages(Tid(fixture.pid()));
        auto mappings = read_maps(Tid(fixture.pid()));
        ASSERT_TRUE(mappings);
        auto forked = ForkedMemory::take(*stopped, stopped->target().memory(), *mappings, {}, {},
                                         &pages, &*room);
        ASSERT_TRUE(forked) << forked.error().message();
        EXPECT_FALSE((*forked)->copy()->is_dead());
        (*forked)->copy()->kill();
        (*forked)->copy()->await_death();
        EXPECT_TRUE((*forked)->copy()->is_dead());
        std::vector<AddrRange> wiped;
        EXPECT_FALSE((*forked)->read(&wiped, &pages, &*room));
    }
    EXPECT_THAT(children_of(fixture.pid()), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// Whoever has no time for it now does it later: the next one takes its place.
TEST(ProcessCopyTest, ItsTargetKeepsOneUntilItIsReaped) {
    Fixture fixture("grower");
    {
        const auto stopped = stop(fixture.pid());
        Target& target = stopped->target();
        for (int i = 0; i < 2; ++i) {
            auto copy = ProcessCopy::make(target, mappings_of(*stopped));
            ASSERT_TRUE(copy) << copy.error().message();
            EXPECT_EQ(children_of(fixture.pid()), std::set{(*copy)->pid().value()});
            (*copy)->kill();
            keep_copy(target, *std::move(copy));
        }
        EXPECT_TRUE(end_copy(target).ok());
        EXPECT_TRUE(end_copy(target).ok());
        EXPECT_THAT(children_of(fixture.pid()), IsEmpty());
    }
    EXPECT_EQ(fixture.quit(), 0);
}

// A stop would cut a transfer short, so that nobody can be made to reap it while that lasts: it is
// left, and whoever looks next finds it.
TEST(ProcessCopyTest, IsReapedLaterIfTheProcessIsInATransfer) {
    ChildProcess process({fixture_path("transfers"), "write"});
    ASSERT_EQ(process.read_line(), "ready");
    const auto ask = [&process](const char* command) {
        process.send(command);
        EXPECT_THAT(read_answer(process).failures, IsEmpty()) << command;
    };
    const std::set<pid_t> own = children_of(process.pid());
    std::shared_ptr<ProcessCopy> copy;
    {
        const auto stopped = stop(process.pid());
        auto made = ProcessCopy::make(stopped->target(), mappings_of(*stopped));
        ASSERT_TRUE(made) << made.error().message();
        copy = *std::move(made);
    }
    ask("begin");
    const auto record = copy->record();
    std::set<pid_t> with_copy = own;
    with_copy.insert(copy->pid().value());
    copy.reset();
    const auto left = reap_copies(Tid(process.pid()), record);
    ASSERT_FALSE(left);
    EXPECT_THAT(left.error().message(), HasSubstr("keeps a dead child of memleax's"));
    EXPECT_EQ(children_of(process.pid()), with_copy);
    EXPECT_NE(record->has_copy.load(), 0);
    ask("go"); // all has been moved by one call
    EXPECT_TRUE(reap_copies(Tid(process.pid()), record).ok());
    EXPECT_EQ(children_of(process.pid()), own);
    EXPECT_EQ(record->has_copy.load(), 0);
    process.send("quit");
    EXPECT_EQ(process.wait_for_end(), 0);
}

class ProcessCopyInGroup : public ::testing::TestWithParam<GroupLimit> {};

// What it lets go of stays there for the copy: 40 MiB of its group's 100, which are too few then
// for the 70 that it takes. It would have been the larger of the two.
TEST_P(ProcessCopyInGroup, IsKilledBeforeTheProcess) {
    const LimitedGroup group(GetParam(), 100 << 20); // goes last: it has to be empty
    Fixture fixture("grower");
    if (!group.takes(fixture.pid())) {
        GTEST_SKIP() << "no " << GetParam().type << " with memory limits that we may use here";
    }
    fixture.ask("grow 40");
    const AddrRange grown = largest_of(fixture.pid());
    {
        Copied copied(fixture.pid());
        fixture.ask("shrink");
        ASSERT_EQ(byte_at(copied.copy(), grown.begin + (4 << 20)), 1);
        const FixtureAnswer answer = fixture.ask("grow 70"); // throws if it has ended
        EXPECT_EQ(answer.truth.at("grown_block"), (Leak{1, 70 << 20}));
        EXPECT_EQ(byte_at(copied.copy(), grown.begin + (4 << 20)), std::nullopt);
    }
    EXPECT_THAT(children_of(fixture.pid()), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// Before that comes to it the copy is given up, and the process is not stopped by its limit.
TEST_P(ProcessCopyInGroup, EndsAsSoonAsMemoryIsScarce) {
    const LimitedGroup group(GetParam(), 200 << 20);
    Fixture fixture("grower");
    if (!group.takes(fixture.pid())) {
        GTEST_SKIP() << "no " << GetParam().type << " with memory limits that we may use here";
    }
    const Tid pid(fixture.pid());
    const FixtureAnswer grown = fixture.ask("grow 40");
    {
        auto room = StoredMemory::reserve(pid, 1U << 30);
        ASSERT_TRUE(room);
        PresentPages pages(pid);
        const auto stopped = stop(fixture.pid());
        auto mappings = read_maps(pid);
        ASSERT_TRUE(mappings);
        std::vector<Mapping> searched = *mappings;
        std::erase_if(searched, [](const Mapping& mapping) { return !is_searched(mapping); });
        auto forked = ForkedMemory::take(*stopped, stopped->target().memory(), *mappings, searched,
                                         {}, &pages, &*room);
        ASSERT_TRUE(forked) << forked.error().message();
        stopped->let_go();
        ASSERT_TRUE(group.limit_to(46 << 20)); // 40 of which are in use, and the fixture's own
        std::vector<AddrRange> wiped;
        const auto read = (*forked)->read(&wiped, &pages, &*room);
        ASSERT_FALSE(read);
        EXPECT_THAT(read.error().message(), HasSubstr("its memory has become too scarce"));
    }
    EXPECT_THAT(children_of(fixture.pid()), IsEmpty());
    EXPECT_EQ(fixture.ask("look").truth, grown.truth);
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Versions, ProcessCopyInGroup, ::testing::ValuesIn(kMemoryLimits),
                         [](const auto& instance) { return std::string(instance.param.name); });

} // namespace
} // namespace memleax::testing

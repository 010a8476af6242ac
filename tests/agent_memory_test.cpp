// SPDX-License-Identifier: GPL-3.0-or-later
// The memory that the inline engine's agent has in the target: how much, and what comes of it where
// there is none.
#include "../src/engine/inline/agent_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "leaks_support.hpp"
#include "limited_group_support.hpp"
#include "memleax/proc/mapping_flags.hpp"
#include "memleax/proc/process_info.hpp"
#include "process_support.hpp"
#include "signal_receiver_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A process that has the agent's data, all bytes of whose beginning are 1.
class AgentMemoryOfReceiver : public SignalReceiver {
  protected:
    static constexpr std::size_t kLooked = 64;

    void SetUp() override {
        data_ = mmap(nullptr, sizeof(agent::Data), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        ASSERT_NE(data_, MAP_FAILED);
        std::fill_n(static_cast<std::uint8_t*>(data_), kLooked, std::uint8_t{1});
        SignalReceiver::SetUp();
    }
    void TearDown() override {
        SignalReceiver::TearDown();
        munmap(data_, sizeof(agent::Data));
    }
    [[nodiscard]] AddrRange range() const {
        return AddrRange::at(RemoteAddr(reinterpret_cast<std::uint64_t>(data_)),
                             sizeof(agent::Data));
    }

  private:
    void* data_ = nullptr;
};

// All threads run then, and may be about to use the pointer: they would see half of it.
TEST_F(AgentMemoryOfReceiver, OneByteIsWrittenWhereNoCallIsToPassAnyMore) {
    trace([this](Target& target) {
        ASSERT_TRUE(target.record().add_agent_data(range()));
        AgentMemory(target).forget_unattended();
        std::vector<std::uint8_t> bytes(kLooked);
        ASSERT_EQ(
            target.memory().try_read(range().start(), std::as_writable_bytes(std::span(bytes))),
            kLooked);
        std::vector<std::uint8_t> expected(kLooked, 1);
        expected[offsetof(agent::Data, may_pass)] = 0;
        EXPECT_EQ(bytes, expected);
    });
    EXPECT_THAT(finish(), IsEmpty());
}

class AgentMemoryInGroup : public ::testing::TestWithParam<GroupLimit> {};

// What the agent would take could be the process's death: then it takes less, or is not there.
TEST_P(AgentMemoryInGroup, TakesNoMoreMemoryThanThereIs) {
    struct Room {
        std::uint64_t bytes;
        const char* told;
        const char* engine = "inline";
    };
    for (const Room room : {Room{400 << 20, ""}, Room{40 << 20, "its threads get small rings: "},
                            Room{6 << 20, "every call stops its thread: ", "int3"}}) {
        SCOPED_TRACE(room.bytes);
        const LimitedGroup group(GetParam(), room.bytes); // goes last: it has to be empty
        Fixture fixture("threads16");
        if (!group.takes(fixture.pid())) {
            GTEST_SKIP() << "no " << GetParam().type << " with memory limits that we may use here";
        }
        Memleax memleax(
            {"--log", "debug", "-F", "json", "-e", "1000", std::to_string(fixture.pid())});
        EXPECT_THAT(memleax.wait_until_watching(),
                    HasSubstr(std::string(", engine ") + room.engine));
        const FixtureAnswer answer = fixture.go();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        expect_truth(result.json(), answer);
        EXPECT_THAT(result.errors, HasSubstr(room.told));
        EXPECT_EQ(result.errors.find("its threads get small rings: ") == std::string::npos,
                  *room.told == 0);
        EXPECT_EQ(fixture.quit(), 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Versions, AgentMemoryInGroup, ::testing::ValuesIn(kMemoryLimits),
                         [](const auto& instance) { return std::string(instance.param.name); });

// With mlockall(MCL_FUTURE) all that is mapped takes memory at once, and a control group with
// little room would have the process killed for it.
TEST(AgentMemory, AProcessThatLocksItsMemoryDoesNotLockOurs) {
    Fixture fixture("locks_memory");
    if (fixture.go().counts.at("locked") == 0) {
        GTEST_SKIP() << "this process may not lock its memory";
    }
    const auto locked = [&] {
        const auto info = try_read_process_info(Tid(fixture.pid()));
        return info ? info->locked_bytes : 0;
    };
    const std::uint64_t before = locked();
    EXPECT_GT(before, 0U);
    Memleax memleax({"--engine", "inline", "--check", "--log", "debug", "-F", "json", "-e", "1000",
                     std::to_string(fixture.pid())});
    memleax.wait_until_patched();
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    constexpr std::uint64_t kMost = 2 << 20; // code, the handler's page
    EXPECT_LT(locked(), before + kMost);
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(result.json().at("session").at("engine"), "inline");
    EXPECT_THAT(live_leaks(result.json()), IsEmpty());
    EXPECT_EQ(locked(), before);
    EXPECT_EQ(fixture.quit(), 0);
}

/// So many KiB may the process map yet.
class AgentMemoryInLimits : public ::testing::TestWithParam<const char*> {};

// All of it takes 98 MB of addresses. Where they are not there, or the process would be short of
// them later, each call stops, and so it is said.
TEST_P(AgentMemoryInLimits, WhereThereIsTooLittleRoomTheEngineIsInt3) {
    Fixture fixture("confined", {"address_space", GetParam()});
    Memleax memleax(
        {"--engine", "inline", "-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    EXPECT_THAT(memleax.wait_until_watching(), HasSubstr(", engine int3"));
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("every call stops its thread: its limited address space"));
    expect_truth(result.json(), answer);
    EXPECT_EQ(result.json().at("session").at("engine"), "int3");
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Kibibytes, AgentMemoryInLimits,
                         ::testing::Values("20000", "150000", "600000"));

TEST(AgentMemory, ASmallPartOfALimitedAddressSpaceIsTaken) {
    Fixture fixture("confined", {"address_space", "2000000"});
    Memleax memleax(
        {"--engine", "inline", "-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    EXPECT_THAT(memleax.wait_until_watching(), HasSubstr(", engine inline"));
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_truth(result.json(), answer);
    EXPECT_EQ(fixture.quit(), 0);
}

// The kernel counts what is writable as promised, also if it is not touched, once more for each
// child that is forked. Where it promises no more than there is (vm.overcommit_memory is 2), calls
// of the process's, and of others, would fail for it.
TEST(AgentMemory, LittleOfItIsWritable) {
    Fixture fixture("confined", {"nothing"});
    const auto before = read_flagged_mappings(Tid(fixture.pid()), "wf");
    if (!before) {
        GTEST_SKIP() << "the kernel tells no flags of mappings";
    }
    Memleax memleax({"--engine", "inline", "--log", "debug", "-F", "json", "-e", "1000",
                     std::to_string(fixture.pid())});
    memleax.wait_until_patched();
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    const auto ours = read_flagged_mappings(Tid(fixture.pid()), "wf");
    const auto writable = read_flagged_mappings(Tid(fixture.pid()), "wr");
    ASSERT_TRUE(ours && writable);
    std::uint64_t bytes = 0;
    for (const AddrRange range : *ours) {
        if (std::find(writable->begin(), writable->end(), range) != writable->end()) {
            bytes += range.size();
        }
    }
    EXPECT_GT(bytes, 0U);
    EXPECT_LT(bytes, std::uint64_t{5} << 20);
    (void)memleax.interrupt_and_finish();
    EXPECT_EQ(fixture.quit(), 0);
}

// Where the kernel makes huge pages of all that is large enough ("always"), a table of which a word
// is used would take 2 MiB.
TEST(AgentMemory, IsMadeOfSmallPages) {
    Fixture fixture("threads16");
    const auto with_flag = [&](const char* flag) {
        return read_flagged_mappings(Tid(fixture.pid()), flag);
    };
    const auto before = with_flag("wf"); // MADV_WIPEONFORK
    if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) {
        GTEST_SKIP() << "the kernel makes no huge pages";
    }
    if (!before) {
        GTEST_SKIP() << "the kernel tells no flags of mappings";
    }
    EXPECT_THAT(*before, IsEmpty());
    Memleax memleax({"--engine", "inline", "--log", "debug", "-F", "json", "-e", "1000",
                     std::to_string(fixture.pid())});
    memleax.wait_until_patched();
    const auto ours = with_flag("wf");
    ASSERT_TRUE(ours);
    EXPECT_THAT(*ours, Not(IsEmpty()));
    EXPECT_EQ(with_flag("nh"), ours); // MADV_NOHUGEPAGE
    (void)memleax.interrupt_and_finish();
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing

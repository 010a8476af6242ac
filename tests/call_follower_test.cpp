// SPDX-License-Identifier: GPL-3.0-or-later
// What calls of allocator functions mean: lists of entries and returns in, events out.
#include "memleax/calls/call_follower.hpp"

#include <map>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace memleax {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Tid kThread(100);
constexpr CodeAddr kCaller(0x9000);  ///< in the program
constexpr CodeAddr kCaller2(0x9100); ///< likewise
constexpr std::uint64_t kSp = 0x7000;

/// Writes down what is told, keeps what is live, and numbers the stacks.
class Written final : public EventSink, public StackInterner, public AccountQueries {
  public:
    std::size_t on_events(std::span<const AllocationEvent> events) override {
        for (std::size_t i = 0; i < events.size(); ++i) {
            if (events[i].if_live && !live.contains(events[i].address)) {
                return i;
            }
            told.push_back(text(events[i]));
            note(events[i]);
        }
        return events.size();
    }
    void on_watermark(MonotonicNs /*time*/) override {}
    void on_code_gone(AddrRange /*range*/) override {}
    void on_mapping(const MappingEvent& event) override {
        constexpr const char* kSteps[] = {"begun", "succeeded", "failed"};
        told.push_back(fmt::format("{} {} +{:x} -{:x}", describe(event.call),
                                   kSteps[static_cast<int>(event.step)], event.added.size(),
                                   event.unmapped[0].size()));
    }
    StackId intern(std::span<const FrameAddress> frames, StackEnd /*end*/) override {
        return StackId(static_cast<std::uint32_t>(frames.size() > 1 ? frames[1].pc().value() : 0));
    }
    bool wants_free_stack(RemoteAddr address) override { return freed.contains(address); }
    bool is_live(RemoteAddr address) override { return live.contains(address); }

    std::vector<std::string> told;
    std::set<RemoteAddr> live;
    std::set<RemoteAddr> freed;

  private:
    static std::string text(const AllocationEvent& event) {
        constexpr const char* kKinds[] = {
            "alloc",       "brief",        "free",           "failed_alloc", "realloc_begin",
            "realloc_end", "realloc_free", "realloc_failed", "hidden_alloc", "unseen_alloc"};
        std::string result = kKinds[static_cast<int>(event.kind)];
        if (event.old_address.value() != 0) {
            result += fmt::format(" {:x}", event.old_address.value());
        }
        if (event.address.value() != 0) {
            result += fmt::format(" {:x}", event.address.value());
        }
        if (event.size != 0) {
            result += fmt::format(" {}", event.size);
        }
        if (event.stack != kNoStack) {
            result += fmt::format(" from {:x}", event.stack.value());
        }
        return result + (event.never_allocated ? " never" : "");
    }
    void note(const AllocationEvent& event) {
        switch (event.kind) {
        case EventKind::alloc:
            live.insert(event.address);
            break;
        case EventKind::brief:
            live.erase(event.address);
            freed.insert(event.address);
            break;
        case EventKind::free:
        case EventKind::realloc_begin:
            live.erase(event.kind == EventKind::free ? event.address : event.old_address);
            freed.insert(event.address);
            break;
        case EventKind::realloc_end:
            live.insert(event.address);
            break;
        case EventKind::realloc_failed:
            live.insert(event.old_address);
            break;
        default:
            break;
        }
    }
};

/// A program at 0x9000, its allocator at 0x1000 to 0x7fff, a heap that grows at 0x100000.
class Environment final : public CallEnvironment, public MemoryReader {
  public:
    MemoryReader& memory() override { return *this; }
    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override {
        const auto it = words.find(from.value());
        if (it == words.end() || out.size() > sizeof it->second) {
            return 0;
        }
        std::memcpy(out.data(), &it->second, out.size());
        return out.size();
    }
    [[nodiscard]] bool in_same_module(CodeAddr a, CodeAddr b) override {
        return is_allocators(a) == is_allocators(b);
    }
    [[nodiscard]] bool in_main_module(CodeAddr code) override { return !is_allocators(code); }
    [[nodiscard]] bool makes_exception(CodeAddr code) override { return code == exceptions; }
    [[nodiscard]] bool frees_cached_blocks(CodeAddr /*code*/) override { return false; }
    [[nodiscard]] std::optional<RemoteAddr> find_variable(CodeAddr /*code*/,
                                                          const char* /*name*/) override {
        return std::nullopt;
    }
    [[nodiscard]] AddrRange mapping_at(RemoteAddr /*begin*/) override { return {}; }
    void before_pages_go() override {}
    [[nodiscard]] bool in_new_heap(RemoteAddr address, MonotonicNs /*now*/) override {
        return address.value() >= 0x100000;
    }

    std::map<std::uint64_t, std::uint64_t> words;
    CodeAddr exceptions;

  private:
    static bool is_allocators(CodeAddr code) { return code.value() < 0x8000; }
};

class CallFollowerTest : public ::testing::Test, protected CallSite {
  protected:
    CallFollowerTest() {
        TrackedMemory all;
        all.mmap = all.brk = true;
        api_->track(all);
        std::uint64_t address = 0x1000;
        for (const char* name : {"malloc", "calloc", "free", "cfree", "realloc", "posix_memalign",
                                 "_Znwm", "mmap", "munmap"}) {
            addresses_[name] = CodeAddr(address);
            address += 0x100;
        }
        start({});
    }
    void start(const FollowOptions& options) {
        follower_.emplace(environment_, AccountAccess{written_, written_, written_}, api_, options);
        for (const auto& [name, address] : addresses_) {
            const AllocatorFunction* function = api_->find(name);
            ASSERT_NE(function, nullptr) << name;
            numbers_[name] = follower_->add_function({.function = function,
                                                      .address = address,
                                                      .size = 0x80,
                                                      .in_c_library = true,
                                                      .by = function->by});
        }
    }
    /// A call, from code that returns to `callers[0]`, which was called from callers[1], ...
    void call(const char* name, std::initializer_list<std::uint64_t> arguments,
              std::uint64_t sp = kSp, std::vector<CodeAddr> callers = {kCaller},
              CallFollower::Follow follow = CallFollower::Follow::to_return) {
        CallEntry entry{.tid = kThread,
                        .function = numbers_.at(name),
                        .sp_after_return = RemoteAddr(sp),
                        .time = MonotonicNs(++time_)};
        std::copy(arguments.begin(), arguments.end(), entry.arguments.begin());
        stack_.frames = {FrameAddress::exact(addresses_.at(name))};
        for (const CodeAddr caller : callers) {
            stack_.frames.push_back(FrameAddress::return_address(caller));
        }
        follower_->on_entry(entry, *this, follow);
    }
    void ret(std::uint64_t result, std::uint64_t sp = kSp, CodeAddr to = kCaller) {
        follower_->on_return({.tid = kThread,
                              .address = to,
                              .sp = RemoteAddr(sp),
                              .result = result,
                              .time = MonotonicNs(++time_)});
    }
    /// In the code of this function.
    CodeAddr within(const char* name) const { return addresses_.at(name) + 0x10; }
    std::vector<std::string> told() { return std::exchange(written_.told, {}); }

    const UnwoundStack& walk(unsigned limit) override {
        cut_ = stack_;
        cut_.frames.resize(std::min<std::size_t>(cut_.frames.size(), limit));
        return cut_;
    }
    std::optional<Unseen> watch_return(CodeAddr /*return_address*/) override { return unseen_; }
    [[nodiscard]] bool watches_all_returns() const override { return !unseen_; }

    Environment environment_;
    Written written_;
    std::shared_ptr<AllocatorApi> api_ = std::make_shared<AllocatorApi>();
    std::map<std::string, CodeAddr> addresses_;
    std::map<std::string, int> numbers_;
    std::optional<CallFollower> follower_;
    UnwoundStack stack_;
    UnwoundStack cut_;
    std::optional<Unseen> unseen_;
    std::int64_t time_ = 0;
};

TEST_F(CallFollowerTest, ABlockBeginsAtTheReturnAndEndsAtTheEntry) {
    call("malloc", {24});
    EXPECT_THAT(told(), IsEmpty());
    ret(0x5000);
    EXPECT_THAT(told(), ElementsAre("alloc 5000 24 from 9000"));
    call("free", {0x5000});
    EXPECT_THAT(told(), ElementsAre("free 5000"));
}

TEST_F(CallFollowerTest, WhatReturnsNullHasFailedUnlessNothingWasAskedFor) {
    call("malloc", {24});
    ret(0);
    EXPECT_THAT(told(), ElementsAre("failed_alloc 24 from 9000"));
    call("malloc", {0});
    ret(0);
    EXPECT_THAT(told(), IsEmpty());
}

TEST_F(CallFollowerTest, CallocThatCallsMallocIsOneCall) {
    call("calloc", {3, 8});
    call("malloc", {24}, kSp - 64, {within("calloc"), kCaller});
    ret(0x5000, kSp - 64, within("calloc"));
    ret(0x5000);
    EXPECT_THAT(told(), ElementsAre("alloc 5000 24 from 9000"));
}

TEST_F(CallFollowerTest, ACallThatEndsByJumpingToAnotherIsOneCall) {
    call("_Znwm", {24});
    call("malloc", {24});
    ret(0x5000);
    EXPECT_THAT(told(), ElementsAre("alloc 5000 24 from 9000"));
}

TEST_F(CallFollowerTest, TheSameFunctionOnceMoreFromTheSameFrameHasNeverReturned) {
    call("malloc", {24});
    call("malloc", {32});
    ret(0x5000);
    EXPECT_THAT(told(), ElementsAre("alloc 5000 32 from 9000"));
}

TEST_F(CallFollowerTest, AnOverflowingSizeIsTheLargest) {
    call("calloc", {1ULL << 40U, 1ULL << 40U});
    ret(0);
    EXPECT_THAT(told(), ElementsAre("failed_alloc 18446744073709551615 from 9000"));
}

TEST_F(CallFollowerTest, ReallocIsTwoMoments) {
    call("malloc", {24});
    ret(0x5000);
    told();
    call("realloc", {0x5000, 48}, kSp, {kCaller2});
    EXPECT_THAT(told(), ElementsAre("realloc_begin 5000 from 9100"));
    ret(0x6000, kSp, kCaller2);
    EXPECT_THAT(told(), ElementsAre("realloc_end 5000 6000 48 from 9100"));
}

TEST_F(CallFollowerTest, ReallocThatFailsLeavesTheBlock) {
    call("realloc", {0x5000, 48});
    told();
    ret(0);
    EXPECT_THAT(told(),
                ElementsAre("realloc_failed 5000 48 from 9000", "failed_alloc 5000 48 from 9000"));
}

TEST_F(CallFollowerTest, ReallocToNothingFrees) {
    call("realloc", {0x5000, 0});
    told();
    ret(0);
    EXPECT_THAT(told(), ElementsAre("realloc_free 5000 from 9000"));
}

TEST_F(CallFollowerTest, ReallocOfNothingAllocates) {
    call("realloc", {0, 48});
    ret(0x5000);
    EXPECT_THAT(told(), ElementsAre("alloc 5000 48 from 9000"));
}

TEST_F(CallFollowerTest, ReallocThatIsLeftIsAbandoned) {
    call("realloc", {0x5000, 48}, kSp - 64);
    told();
    call("malloc", {8}); // the stack is shorter: longjmp
    EXPECT_THAT(told(), ElementsAre("realloc_failed 5000"));
}

TEST_F(CallFollowerTest, AThreadThatEndsLeavesItsCalls) {
    call("realloc", {0x5000, 48});
    told();
    follower_->on_thread_gone(kThread);
    EXPECT_THAT(told(), ElementsAre("realloc_failed 5000"));
    ret(0x6000);
    EXPECT_THAT(told(), IsEmpty());
}

TEST_F(CallFollowerTest, TheBlockOfPosixMemalignIsWhereItSays) {
    environment_.words[0x6ff0] = 0x5040;
    call("posix_memalign", {0x6ff0, 64, 100});
    ret(0);
    EXPECT_THAT(told(), ElementsAre("alloc 5040 100 from 9000"));
    call("posix_memalign", {0x6ff0, 3, 100});
    ret(22); // EINVAL
    EXPECT_THAT(told(), ElementsAre("failed_alloc 100 from 9000"));
}

TEST_F(CallFollowerTest, FreeOfNothingIsNothing) {
    call("free", {0});
    EXPECT_THAT(told(), IsEmpty());
}

TEST_F(CallFollowerTest, AFreeThatCallsOrJumpsToTheRealOneIsOne) {
    for (const std::uint64_t inner : {kSp, kSp - 64}) {
        call("malloc", {24});
        ret(0x5000);
        told();
        call("free", {0x5000});
        call("cfree", {0x5000}, inner, {inner == kSp ? kCaller : within("free"), kCaller});
        EXPECT_THAT(told(), ElementsAre("free 5000")) << inner;
    }
}

TEST_F(CallFollowerTest, ASecondFreeComesWithItsStack) {
    call("malloc", {24});
    ret(0x5000);
    call("free", {0x5000});
    told();
    call("free", {0x5000}, kSp, {kCaller2});
    EXPECT_THAT(told(), ElementsAre("free 5000 from 9100"));
}

TEST_F(CallFollowerTest, TheAllocatorsOwnFreeOfWhatIsNotLiveIsNone) {
    call("free", {0x5000}, kSp, {within("malloc"), kCaller});
    EXPECT_THAT(told(), IsEmpty());
}

TEST_F(CallFollowerTest, AHandlersCallsAreItsOwn) {
    call("malloc", {24});
    follower_->on_signal(kThread);
    stack_.crossed_signal_frame = true;
    call("malloc", {8}, kSp - 512, {kCaller2});
    ret(0x6000, kSp - 512, kCaller2);
    stack_.crossed_signal_frame = false;
    ret(0x5000);
    EXPECT_THAT(told(), ElementsAre("alloc 6000 8 from 9100", "alloc 5000 24 from 9000"));
}

TEST_F(CallFollowerTest, ThrowingNewHasFailedWhenItsExceptionIsMade) {
    environment_.exceptions = within("_Znwm") - 1;
    call("_Znwm", {24});
    call("malloc", {128}, kSp - 64, {within("_Znwm"), kCaller});
    ret(0x5000, kSp - 64, within("_Znwm"));
    EXPECT_THAT(told(), ElementsAre("failed_alloc 24 from 9000", "alloc 5000 128 from 1610"));
}

TEST_F(CallFollowerTest, WhatReturnsUnseenIsCountedOnceAlthoughItJumpsOn) {
    unseen_ = Unseen::generated_code;
    call("_Znwm", {24});
    call("malloc", {24});
    EXPECT_THAT(told(), ElementsAre("unseen_alloc 24 from 9000"));
}

TEST_F(CallFollowerTest, WhileLeavingOnlyTheEndsOfLiveBlocksCount) {
    call("malloc", {24});
    ret(0x5000);
    told();
    call("malloc", {8}, kSp, {kCaller}, CallFollower::Follow::not_at_all);
    ret(0x6000);
    call("free", {0x6000}, kSp, {kCaller}, CallFollower::Follow::not_at_all);
    EXPECT_THAT(told(), IsEmpty());
    call("free", {0x5000}, kSp, {kCaller}, CallFollower::Follow::not_at_all);
    EXPECT_THAT(told(), ElementsAre("free 5000"));
}

TEST_F(CallFollowerTest, WithCheckFreesHaveStacksAndAddressesThatNobodyGaveAreKnown) {
    start({.check = true});
    call("malloc", {24});
    ret(0x5000);
    told();
    call("free", {0x5000}, kSp, {kCaller2});
    EXPECT_THAT(told(), ElementsAre("free 5000 from 9100"));
    call("free", {0x100040}, kSp, {kCaller2});
    call("free", {0x5004}, kSp, {kCaller2});
    EXPECT_THAT(told(), ElementsAre("free 100040 from 9100 never", "free 5004 from 9100 never"));
}

TEST_F(CallFollowerTest, WithCheckWhatAnInterposerAllocatesWithinIsHidden) {
    start({.check = true});
    call("calloc", {1, 24});
    call("malloc", {64}, kSp - 64, {within("calloc"), kCaller});
    ret(0x5000, kSp - 64, within("calloc"));
    ret(0x5010);
    EXPECT_THAT(told(), ElementsAre("hidden_alloc 5000", "alloc 5010 24 from 9000"));
}

TEST_F(CallFollowerTest, MappingsEndAtTheEntryAndBeginAtTheReturn) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::string begun = fmt::format("munmap begun +0 -{:x}", 2 * page);
    call("mmap", {0, page + page / 2, 3, 0x22});
    ret(0x200000);
    EXPECT_THAT(told(),
                ElementsAre("mmap begun +0 -0", fmt::format("mmap succeeded +{:x} -0", 2 * page)));
    call("munmap", {0x200000, 2 * page});
    ret(0);
    EXPECT_THAT(told(), ElementsAre(begun, "munmap succeeded +0 -0"));
    call("munmap", {0x200000, 2 * page});
    ret(~std::uint64_t{0});
    EXPECT_THAT(told(), ElementsAre(begun, "munmap failed +0 -0"));
}

TEST_F(CallFollowerTest, CodeThatIsGoneIsNotKnownAnyMore) {
    EXPECT_TRUE(follower_->follows(*api_->find("cfree")));
    const std::uint64_t begin = addresses_["cfree"].value();
    follower_->forget_functions({begin, begin + 0x80});
    EXPECT_EQ(follower_->function(numbers_["cfree"]).address, CodeAddr());
    call("free", {0x5000});
    EXPECT_THAT(told(), ElementsAre("free 5000"));
}

class RecordedCalls : public CallFollowerTest {
  protected:
    RecordedCall call(RecordedCall::Kind kind, const std::string& name, std::uint64_t block,
                      std::uint64_t size = 0) {
        RecordedCall result;
        result.kind = kind;
        result.tid = kThread;
        result.function = numbers_.at(name);
        result.block = RemoteAddr(block);
        result.size = size;
        result.stack = StackId(0x77);
        result.caller = kCaller;
        return result;
    }
    RecordedCall allocated(std::uint64_t block, std::uint64_t size = 8) {
        return call(RecordedCall::Kind::allocated, "malloc", block, size);
    }
    RecordedCall freed(std::uint64_t block) {
        RecordedCall result = call(RecordedCall::Kind::freed, "free", block);
        result.stack = kNoStack;
        return result;
    }
    std::vector<std::string> told(const std::vector<RecordedCall>& calls) {
        written_.told.clear();
        follower_->on_recorded(calls);
        return written_.told;
    }
};

TEST_F(RecordedCalls, AreToldInTheirOrder) {
    EXPECT_THAT(told({allocated(0x100), freed(0x100), allocated(0x100, 9)}),
                ElementsAre("alloc 100 8 from 77", "free 100", "alloc 100 9 from 77"));
    EXPECT_TRUE(written_.live.contains(RemoteAddr(0x100)));
}

TEST_F(RecordedCalls, AFreesStackIsToldIfItHasOne) { // with --check
    RecordedCall free = freed(0x100);
    free.stack = StackId(0x88);
    EXPECT_THAT(told({allocated(0x100), free}),
                ElementsAre("alloc 100 8 from 77", "free 100 from 88"));
}

TEST_F(RecordedCalls, OneThatHasEndedAlreadyIsToldAsOne) {
    const RecordedCall brief = call(RecordedCall::Kind::brief, "malloc", 0x100, 8);
    RecordedCall perhaps = freed(0x100);
    perhaps.kind = RecordedCall::Kind::freed_if_live;
    EXPECT_THAT(told({brief, perhaps}), ElementsAre("brief 100 8 from 77"));
    EXPECT_THAT(told({allocated(0x100), perhaps}), ElementsAre("alloc 100 8 from 77", "free 100"));
    EXPECT_THAT(told({allocated(0x200)}), ElementsAre("alloc 200 8 from 77"));
    perhaps.block = RemoteAddr(0x200); // of an earlier batch
    EXPECT_THAT(told({perhaps}), ElementsAre("free 200"));
}

// An operator new that calls another one: both are told of.
TEST_F(RecordedCalls, ABriefOneEndsTheBlockThatWasThereBefore) {
    const RecordedCall brief = call(RecordedCall::Kind::brief, "malloc", 0x100, 8);
    RecordedCall within = freed(0x100);
    within.kind = RecordedCall::Kind::inner_free;
    told({allocated(0x100)});
    EXPECT_THAT(told({brief, within}), ElementsAre("brief 100 8 from 77"));
    told({allocated(0x100)});
    // Also behind what is told by itself.
    EXPECT_THAT(told({allocated(0, 1000), brief, within}),
                ElementsAre("failed_alloc 1000 from 77", "brief 100 8 from 77"));
}

TEST_F(RecordedCalls, AFailureIsOneUnlessNothingWasAskedFor) {
    EXPECT_THAT(told({allocated(0, 1000)}), ElementsAre("failed_alloc 1000 from 77"));
    EXPECT_THAT(told({allocated(0, 0)}), IsEmpty());
}

TEST_F(RecordedCalls, ReallocMovesABlock) {
    RecordedCall end = call(RecordedCall::Kind::allocated, "realloc", 0x200, 30);
    end.old_block = RemoteAddr(0x100);
    EXPECT_THAT(
        told({allocated(0x100), call(RecordedCall::Kind::realloc_began, "realloc", 0x100, 30), end,
              freed(0x200)}),
        ElementsAre("alloc 100 8 from 77", "realloc_begin 100 from 77",
                    "realloc_end 100 200 30 from 77", "free 200"));
}

TEST_F(RecordedCalls, AReallocThatWasLeftHasFailed) {
    RecordedCall left = call(RecordedCall::Kind::realloc_left, "realloc", 0);
    left.old_block = RemoteAddr(0x100);
    EXPECT_THAT(
        told({allocated(0x100), call(RecordedCall::Kind::realloc_began, "realloc", 0x100, 30),
              left}),
        ElementsAre("alloc 100 8 from 77", "realloc_begin 100 from 77", "realloc_failed 100"));
    EXPECT_TRUE(written_.live.contains(RemoteAddr(0x100)));
}

TEST_F(RecordedCalls, OfWhatIsNotLive) {
    RecordedCall by_allocator = freed(0x100);
    by_allocator.caller = CodeAddr(0x1010);
    RecordedCall within = freed(0x100);
    within.kind = RecordedCall::Kind::inner_free;
    EXPECT_THAT(told({by_allocator, within}), IsEmpty()); // its own affair
    EXPECT_THAT(told({freed(0x100)}), ElementsAre("free 100"));
    written_.freed.insert(RemoteAddr(0x100)); // a second time: by whom?
    EXPECT_THAT(told({freed(0x100)}), ElementsAre("free 100 from 9000"));
    // Within another call it ends a block if there is one.
    EXPECT_THAT(told({allocated(0x300),
                      [&] {
                          RecordedCall inner = freed(0x300);
                          inner.kind = RecordedCall::Kind::inner_free;
                          return inner;
                      }()}),
                ElementsAre("alloc 300 8 from 77", "free 300"));
}

} // namespace
} // namespace memleax

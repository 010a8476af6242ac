// SPDX-License-Identifier: GPL-3.0-or-later
// The rule of DESIGN.md, "Which stacks leak", on scripted programs. Time is virtual.
#include "memleax/analysis/verdict.hpp"

#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "memleax/report/verdict_text.hpp"
#include "memleax/track/tracker.hpp"

namespace memleax {
namespace {

/// A program whose only call stack is the one that is judged. Blocks are freed when their time
/// comes, or by the script.
class Stream {
  public:
    explicit Stream(unsigned seed) : random(seed) {
        stack_ = tracker.intern(std::vector{FrameAddress::exact(CodeAddr(1))}, StackEnd::outermost);
    }
    /// Lets the time go on, with frees that are due.
    void until(double s) {
        const auto time = static_cast<std::int64_t>(s * kNsPerSecond);
        while (!due_.empty() && due_.begin()->first <= time) {
            const auto [when, address] = *due_.begin();
            due_.erase(due_.begin());
            pass(when);
            free(address);
        }
        pass(time);
    }
    [[nodiscard]] double now() const { return seconds(now_); }
    std::uint64_t alloc(std::uint64_t size = 100) {
        next_ += 16;
        send(EventKind::alloc, next_, 0, size);
        return next_;
    }
    void free(std::uint64_t address) { send(EventKind::free, address, 0, 0); }
    std::uint64_t realloc(std::uint64_t old, std::uint64_t size) {
        next_ += 16;
        send(EventKind::realloc_begin, 0, old, 0);
        send(EventKind::realloc_end, next_, old, size);
        return next_;
    }
    void free_after(std::uint64_t address, double s) {
        due_.emplace(now_ + static_cast<std::int64_t>(s * kNsPerSecond), address);
    }
    /// To the next event of a program that has `rate` of them a second, at random times.
    void next(double rate) { until(now() + std::exponential_distribution<>(rate)(random)); }
    double exponential(double mean) { return std::exponential_distribution<>(1 / mean)(random); }
    bool one_in(double n) { return std::uniform_real_distribution<>(0, n)(random) < 1; }

    /// What was said, at each second.
    struct Said {
        double time;
        Judgement judgement;
    };
    std::vector<Said> said;

    Tracker tracker{{.memory_block_max = 0, .call_stack_max = 0, .notices = false}};
    std::mt19937 random;

  private:
    void pass(std::int64_t time) {
        constexpr std::int64_t kLook = 250'000'000; // as often as a session looks at the clock
        for (; looked_ + kLook <= time; looked_ += kLook) {
            const MonotonicNs look(looked_);
            tracker.expire(look, SIZE_MAX);
            if (looked_ % kNsPerSecond == 0) {
                said.push_back(
                    {seconds(looked_), judge(tracker.intervals().of(stack_, look), look)});
            }
        }
        now_ = std::max(now_, time);
    }
    void send(EventKind kind, std::uint64_t address, std::uint64_t old, std::uint64_t size) {
        tracker.on_event({.kind = kind,
                          .tid = Tid(1),
                          .address = RemoteAddr(address),
                          .size = size,
                          .old_address = RemoteAddr(old),
                          .stack = stack_,
                          .time = MonotonicNs(now_)});
    }

    StackId stack_;
    std::int64_t now_ = 0;
    std::int64_t looked_ = 0;
    std::uint64_t next_ = 0x1000;
    std::multimap<std::int64_t, std::uint64_t> due_;
};

using Said = Stream::Said;

/// Plays `step`, which brings the time on by itself, until the end.
const std::vector<Said>& play(Stream& stream, double end,
                              const std::function<void(Stream&)>& step) {
    while (stream.now() <= end) {
        step(stream);
    }
    return stream.said;
}

using Verdicts = std::vector<Verdict>;

void expect(const std::vector<Said>& said, double begin, double end, const Verdicts& allowed) {
    std::size_t checked = 0;
    for (const Said& s : said) {
        if (s.time < begin || s.time > end) {
            continue;
        }
        ++checked;
        if (std::find(allowed.begin(), allowed.end(), s.judgement.verdict) == allowed.end()) {
            ADD_FAILURE() << "at " << s.time << " s: " << describe(s.judgement.verdict) << ": "
                          << why(s.judgement);
            return;
        }
    }
    EXPECT_GT(checked, 0U);
}

constexpr auto kTooEarly = Verdict::too_early;
constexpr auto kSettled = Verdict::settled;
constexpr auto kPlateau = Verdict::plateau;
constexpr auto kGrowing = Verdict::growing;
constexpr auto kLeaking = Verdict::leaking;

/// Each test for several rates of events and seeds.
struct VerdictTest : testing::TestWithParam<std::tuple<double, unsigned>> {
    [[nodiscard]] double rate() const { return std::get<0>(GetParam()); }
    Stream stream{std::get<1>(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(Streams, VerdictTest,
                         testing::Combine(testing::Values(20, 200, 2000),
                                          testing::Values(1U, 2U, 3U)));

TEST_P(VerdictTest, LeakOfOneInAThousand) {
    const double leaks = rate() / 1000;
    // Some leaks have to have happened: at 20/s one in 50 s.
    const double sure = std::max(130.0, 60 / leaks);
    const auto& said = play(stream, sure * 2, [&](Stream& s) {
        s.next(rate());
        const auto block = s.alloc();
        if (!s.one_in(1000)) {
            s.free_after(block, s.exponential(0.05));
        }
    });
    expect(said, 1, 9, {kTooEarly});
    expect(said, 10, 59, {kTooEarly, kSettled, kPlateau, kGrowing});
    expect(said, sure, sure * 2, {kLeaking});
    const Judgement& last = said.back().judgement;
    EXPECT_NEAR(last.blocks_per_s, leaks, leaks * 0.7);
    EXPECT_NEAR(last.bytes_per_s, last.blocks_per_s * 100, 1e-6);
}

TEST_P(VerdictTest, LeakOfEverything) {
    const double leaks = rate() / 20;
    const auto& said = play(stream, 1800, [&](Stream& s) {
        s.next(leaks);
        s.alloc();
    });
    expect(said, 30, 500, {kGrowing});
    expect(said, 1500, 1800, {kLeaking});
    EXPECT_NEAR(said.back().judgement.blocks_per_s, leaks, leaks * 0.3);
}

TEST_P(VerdictTest, CacheThatFillsAndStops) {
    const double full = 100;
    const auto& said = play(stream, 600, [&](Stream& s) {
        s.next(rate());
        if (s.now() < full) {
            s.alloc();
        }
    });
    expect(said, 1, 9, {kTooEarly});
    expect(said, 15, full, {kGrowing});
    expect(said, full, 120, {kGrowing, kPlateau});
    expect(said, 130, 600, {kPlateau});
}

TEST_P(VerdictTest, CacheOfRandomKeysThatFills) {
    const double keys = rate() * 30;
    std::vector<bool> cached(static_cast<std::size_t>(keys));
    const auto& said = play(stream, 600, [&](Stream& s) {
        s.next(rate());
        auto&& entry = cached[s.random() % cached.size()];
        if (!entry) {
            s.alloc();
            entry = true;
        }
    });
    expect(said, 15, 25, {kGrowing});
    expect(said, 10, 600, {kTooEarly, kGrowing, kPlateau});
    expect(said, 200, 600, {kPlateau});
}

TEST_P(VerdictTest, CacheThatEvictsTheOldest) {
    const auto capacity = static_cast<std::size_t>(rate() * 40);
    std::deque<std::uint64_t> cache;
    const auto& said = play(stream, 700, [&](Stream& s) {
        s.next(rate());
        cache.push_back(s.alloc());
        if (cache.size() > capacity) {
            s.free(cache.front());
            cache.pop_front();
        }
    });
    expect(said, 15, 35, {kGrowing});
    expect(said, 1, 700, {kTooEarly, kGrowing, kSettled});
    expect(said, 100, 700, {kSettled});
}

TEST_P(VerdictTest, CacheThatEvictsAnyone) {
    const auto capacity = static_cast<std::size_t>(rate() * 20);
    std::vector<std::uint64_t> cache;
    const auto& said = play(stream, 900, [&](Stream& s) {
        s.next(rate());
        if (cache.size() < capacity) {
            cache.push_back(s.alloc());
        } else {
            auto& victim = cache[s.random() % capacity];
            s.free(victim);
            victim = s.alloc();
        }
    });
    expect(said, 1, 900, {kTooEarly, kGrowing, kSettled});
    expect(said, 150, 900, {kSettled});
}

TEST_P(VerdictTest, LeakThatStartsLate) {
    const double start = 300;
    const double leaks = std::max(rate() / 1000, 0.2);
    const auto& said = play(stream, 800, [&](Stream& s) {
        s.next(rate());
        const auto block = s.alloc();
        if (s.now() < start || !s.one_in(rate() / leaks)) {
            s.free_after(block, s.exponential(0.5));
        }
    });
    expect(said, 30, start, {kSettled});
    expect(said, start, 360, {kSettled, kPlateau, kGrowing, kTooEarly});
    expect(said, 530, 800, {kLeaking});
}

TEST_P(VerdictTest, LeakThatStartsAfterALongQuietTime) {
    const double churn = std::min(rate(), 100.0);
    const auto& said = play(stream, 3000, [&](Stream& s) {
        s.next(churn);
        const auto block = s.alloc();
        if (s.now() < 2500 || !s.one_in(churn)) {
            s.free_after(block, s.exponential(0.2));
        }
    });
    expect(said, 30, 2500, {kSettled});
    expect(said, 2650, 3000, {kLeaking});
}

TEST_P(VerdictTest, SlowLeakUnderHeavyChurn) {
    const double leaks = 0.1; // one block in 10 s
    const auto& said = play(stream, 900, [&](Stream& s) {
        s.next(rate());
        const auto block = s.alloc();
        if (!s.one_in(rate() / leaks)) {
            s.free_after(block, s.exponential(s.one_in(100) ? 3 : 0.1));
        }
    });
    expect(said, 450, 900, {kLeaking});
    EXPECT_NEAR(said.back().judgement.blocks_per_s, leaks, leaks * 0.6);
}

TEST_P(VerdictTest, PoolThatGrowsWithTheLoadAndShrinks) {
    std::vector<std::uint64_t> pool;
    const auto wanted = [&](double t) {
        const double load = t < 120 ? t / 120 : std::max(0.0, 1 - (t - 200) / 100);
        return static_cast<std::size_t>(rate() * 30 * std::min(load, 1.0));
    };
    const auto& said = play(stream, 700, [&](Stream& s) {
        s.next(rate());
        while (pool.size() < wanted(s.now())) {
            pool.push_back(s.alloc());
        }
        while (pool.size() > wanted(s.now())) {
            s.free(pool.back());
            pool.pop_back();
        }
    });
    expect(said, 1, 120, {kTooEarly, kGrowing});
    expect(said, 30, 120, {kGrowing});
    expect(said, 120, 150, {kGrowing, kPlateau});
    expect(said, 150, 300, {kPlateau, kSettled});
    expect(said, 301, 700, {kSettled});
}

TEST_P(VerdictTest, PoolOfRequestsUnderLoadThatComesAndGoes) {
    const auto& said = play(stream, 1200, [&](Stream& s) {
        s.next(rate() * (1.1 + std::sin(s.now() / 50)));
        s.free_after(s.alloc(), s.exponential(1.5 + std::sin(s.now() / 50)));
    });
    expect(said, 10, 1200, {kTooEarly, kGrowing, kSettled});
    expect(said, 120, 1200, {kSettled});
}

TEST_P(VerdictTest, PoolThatKeepsItsBlocksThroughWavesOfLoad) {
    std::vector<std::uint64_t> pool;
    const auto& said = play(stream, 2000, [&](Stream& s) {
        s.next(rate());
        const auto wanted = static_cast<std::size_t>(rate() * 10 * (1.5 - std::cos(s.now() / 40)));
        if (pool.size() < wanted) {
            pool.push_back(s.alloc());
        } else if (pool.size() > wanted) {
            s.free(pool.back());
            pool.pop_back();
        }
    });
    expect(said, 1, 2000, {kTooEarly, kGrowing, kPlateau, kSettled});
}

TEST_P(VerdictTest, StartUp) {
    for (int i = 0; i < 50; ++i) {
        stream.alloc();
    }
    const auto& said = play(stream, 600, [&](Stream& s) { s.until(s.now() + 0.5); });
    expect(said, 1, 9, {kTooEarly});
    expect(said, 12, 600, {kPlateau});
}

TEST_P(VerdictTest, OneBlockForEver) {
    stream.alloc();
    const auto& said = play(stream, 600, [&](Stream& s) { s.until(s.now() + 0.5); });
    expect(said, 1, 59, {kTooEarly});
    expect(said, 61, 600, {kPlateau});
}

TEST_P(VerdictTest, SessionsThatLiveAMinute) {
    const auto& said = play(stream, 900, [&](Stream& s) {
        s.next(rate() / 10);
        s.free_after(s.alloc(), 60);
    });
    expect(said, 1, 900, {kTooEarly, kGrowing, kSettled});
    expect(said, 20, 59, {kGrowing});
    expect(said, 130, 900, {kSettled});
}

TEST_P(VerdictTest, BufferThatGrowsByRealloc) {
    std::uint64_t size = 100;
    auto buffer = stream.alloc(size);
    const auto& said = play(stream, 600, [&](Stream& s) {
        s.next(rate() / 20);
        size += 10;
        buffer = s.realloc(buffer, size);
    });
    expect(said, 1, 600, {kTooEarly, kSettled, kPlateau});
    expect(said, 100, 600, {kSettled});
}

TEST_P(VerdictTest, ChurnOfShortAndLongLives) {
    const auto& said = play(stream, 1200, [&](Stream& s) {
        s.next(rate());
        s.free_after(s.alloc(), s.exponential(s.one_in(20) ? 10 : 0.01));
    });
    expect(said, 1, 1200, {kTooEarly, kGrowing, kSettled});
    expect(said, 150, 1200, {kSettled});
}

TEST(Verdict, NothingIsTooEarly) {
    EXPECT_EQ(judge({}, MonotonicNs(0)).verdict, kTooEarly);
    const std::vector<IntervalCount> empty{
        {MonotonicNs(0), MonotonicNs(100 * kNsPerSecond), {}, {}, 0}};
    EXPECT_EQ(judge(empty, MonotonicNs(100 * kNsPerSecond)).verdict, kTooEarly);
}

TEST(Verdict, DoesNotDependOnTheExpireThreshold) {
    std::vector<std::string> said;
    for (const std::int64_t expire : {std::int64_t{1}, kNsPerSecond, 1000 * kNsPerSecond}) {
        Tracker tracker({.expire_ns = expire, .memory_block_max = 0, .call_stack_max = 0});
        const StackId stack = tracker.intern({}, StackEnd::outermost);
        for (std::int64_t i = 0; i < 200; ++i) {
            const MonotonicNs time(i * kNsPerSecond);
            tracker.expire(time, SIZE_MAX);
            for (const std::uint64_t address : {i * 2, i * 2 + 1}) {
                tracker.on_event({.kind = EventKind::alloc,
                                  .tid = Tid(1),
                                  .address = RemoteAddr(address + 1),
                                  .size = 8,
                                  .old_address = {},
                                  .stack = stack,
                                  .time = time});
            }
            tracker.on_event({.kind = EventKind::free,
                              .tid = Tid(1),
                              .address = RemoteAddr(static_cast<std::uint64_t>(i) * 2 + 1),
                              .size = 0,
                              .old_address = {},
                              .stack = stack,
                              .time = MonotonicNs(time.value() + 3)});
        }
        const MonotonicNs now(200 * kNsPerSecond);
        const Judgement judgement = judge(tracker.intervals().of(stack, now), now);
        said.push_back(std::string(describe(judgement.verdict)) + ": " + why(judgement));
    }
    EXPECT_EQ(said[0], said[1]);
    EXPECT_EQ(said[0], said[2]);
    EXPECT_EQ(said[0], "leaking: 50% of blocks stay in every interval back to 200 s; 1 blocks/s");
}

} // namespace
} // namespace memleax

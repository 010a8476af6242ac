// SPDX-License-Identifier: GPL-3.0-or-later
// The rule of docs/verdicts.md, on scripted programs. Time is virtual. Where events
// come regularly, the verdict of each second is known; where they come at random moments, that
// which the program comes to.
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "memleax/analysis/verdict.hpp"
#include "memleax/report/verdict_text.hpp"
#include "memleax/track/tracker.hpp"

namespace memleax {
namespace {

/// A program whose only call stack is the one that is judged. Blocks are freed when their time
/// comes, or by the script.
class Stream {
  public:
    /// No seed: everything that is left to chance happens regularly.
    Stream(double events_per_s, std::optional<unsigned> seed)
        : rate(events_per_s), random(seed.value_or(0)), regular_(!seed) {
        stack_ = tracker.intern(std::vector{FrameAddress::exact(CodeAddr(1))}, StackEnd::outermost);
    }
    [[nodiscard]] double now() const { return seconds(now_); }
    /// To the next event of a program that has so many of them a second, with the frees that are
    /// due until then.
    void next(double per_s) { until(now_ + in_ns(regular_ ? 1 / per_s : exponential(1 / per_s))); }
    /// How long a block lives, exponentially distributed.
    double life(double mean) {
        if (!regular_) {
            return exponential(mean);
        }
        constexpr std::array kQuantiles{0.45, 0.95, 0.15, 0.65, 0.35, 0.85, 0.05, 0.55, 0.25, 0.75};
        return -mean * std::log(1 - kQuantiles.at(lives_[mean]++ % kQuantiles.size()));
    }
    bool one_in(double n) {
        return regular_ ? ++turns_[n] % std::llround(n) == 0 : fraction() * n < 1;
    }

    std::uint64_t alloc(std::uint64_t size = 100) {
        next_ += 16;
        send(EventKind::alloc, next_, 0, size);
        births_.emplace(next_, now_);
        return next_;
    }
    void free(std::uint64_t address) {
        send(EventKind::free, address, 0, 0);
        births_.erase(address);
    }
    std::uint64_t realloc(std::uint64_t old, std::uint64_t size) {
        next_ += 16;
        send(EventKind::realloc_begin, 0, old, 0);
        send(EventKind::realloc_end, next_, old, size);
        births_.erase(old);
        births_.emplace(next_, now_);
        return next_;
    }
    void free_after(std::uint64_t address, double s) { due_.emplace(now_ + in_ns(s), address); }

    /// What was said, at each second.
    struct Said {
        std::int64_t second;
        Judgement judgement;
    };
    std::vector<Said> said;

    const double rate; ///< events in a second, as the script takes it
    Tracker tracker{{.memory_block_max = 0, .call_stack_max = 0, .notices = false}};
    std::mt19937 random;

  private:
    static std::int64_t in_ns(double s) { return std::llround(s * kNsPerSecond); }
    /// The standard library's distributions differ from one to the other.
    double fraction() { return random() / 4294967296.0; }
    double exponential(double mean) { return -mean * std::log(1 - fraction()); }

    void until(std::int64_t time) {
        while (!due_.empty() && due_.begin()->first <= time) {
            const auto [when, address] = *due_.begin();
            due_.erase(due_.begin());
            pass(when);
            free(address);
        }
        pass(time);
    }
    void pass(std::int64_t time) {
        constexpr std::int64_t kLook = 250'000'000; // as often as a session looks at the clock
        for (; looked_ + kLook <= time; looked_ += kLook) {
            const MonotonicNs look(looked_);
            tracker.expire(look, SIZE_MAX);
            if (looked_ % kNsPerSecond == 0) {
                said.push_back({looked_ / kNsPerSecond,
                                judge(tracker.intervals().of(stack_, look), look, oldest_live())});
            }
        }
        now_ = std::max(now_, time);
    }
    [[nodiscard]] std::optional<MonotonicNs> oldest_live() const {
        return births_.empty() ? std::nullopt : std::optional(MonotonicNs(births_.begin()->second));
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

    bool regular_;
    StackId stack_;
    std::int64_t now_ = 0;
    std::int64_t looked_ = 0;
    std::uint64_t next_ = 0x1000;
    std::map<std::uint64_t, std::int64_t> births_; ///< of live blocks: addresses only grow
    std::map<double, std::size_t> lives_;          ///< by their mean
    std::map<double, std::int64_t> turns_;
    std::multimap<std::int64_t, std::uint64_t> due_;
};

/// Each is played until `end`.
void leak_of_one_in_a_thousand(Stream& s, double end) {
    while (s.now() <= end) {
        s.next(s.rate);
        const auto block = s.alloc();
        if (!s.one_in(1000)) {
            s.free_after(block, s.life(0.05));
        }
    }
}

/// What is freed lives for a second or two.
void leak_of_every_other(Stream& s, double end) {
    while (s.now() <= end) {
        s.next(s.rate);
        const auto block = s.alloc();
        if (!s.one_in(2)) {
            s.free_after(block, s.life(0.5));
        }
    }
}

void leak_of_everything(Stream& s, double end) {
    while (s.now() <= end) {
        s.next(s.rate / 20);
        s.alloc();
    }
}

void cache_that_fills_and_stops(Stream& s, double end) {
    while (s.now() <= end) {
        s.next(s.rate);
        if (s.now() < 100) {
            s.alloc();
        }
    }
}

void cache_of_random_keys_that_fills(Stream& s, double end) {
    std::vector<bool> cached(static_cast<std::size_t>(s.rate * 30));
    while (s.now() <= end) {
        s.next(s.rate);
        auto&& entry = cached[s.random() % cached.size()];
        if (!entry) {
            s.alloc();
            entry = true;
        }
    }
}

void cache_that_evicts_the_oldest(Stream& s, double end) {
    const auto capacity = static_cast<std::size_t>(s.rate * 40);
    std::deque<std::uint64_t> cache;
    while (s.now() <= end) {
        s.next(s.rate);
        cache.push_back(s.alloc());
        if (cache.size() > capacity) {
            s.free(cache.front());
            cache.pop_front();
        }
    }
}

void cache_that_evicts_anyone(Stream& s, double end) {
    const auto capacity = static_cast<std::size_t>(s.rate * 20);
    std::vector<std::uint64_t> cache;
    while (s.now() <= end) {
        s.next(s.rate);
        if (cache.size() < capacity) {
            cache.push_back(s.alloc());
        } else {
            auto& victim = cache[s.random() % capacity];
            s.free(victim);
            victim = s.alloc();
        }
    }
}

void leak_that_starts_late(Stream& s, double end) {
    const double leaks = std::max(s.rate / 1000, 0.2);
    while (s.now() <= end) {
        s.next(s.rate);
        const auto block = s.alloc();
        if (s.now() < 300 || !s.one_in(s.rate / leaks)) {
            s.free_after(block, s.life(0.5));
        }
    }
}

void leak_that_starts_after_a_long_quiet_time(Stream& s, double end) {
    const double churn = std::min(s.rate, 100.0);
    while (s.now() <= end) {
        s.next(churn);
        const auto block = s.alloc();
        if (s.now() < 2500 || !s.one_in(churn)) {
            s.free_after(block, s.life(0.2));
        }
    }
}

/// One block in 10 s.
void slow_leak_under_heavy_churn(Stream& s, double end) {
    while (s.now() <= end) {
        s.next(s.rate);
        const auto block = s.alloc();
        if (!s.one_in(s.rate * 10)) {
            s.free_after(block, s.life(s.one_in(100) ? 3 : 0.1));
        }
    }
}

void pool_that_grows_with_the_load_and_shrinks(Stream& s, double end) {
    std::vector<std::uint64_t> pool;
    while (s.now() <= end) {
        s.next(s.rate);
        const double t = s.now();
        const double load = t < 120 ? t / 120 : std::max(0.0, 1 - (t - 200) / 100);
        const auto wanted = static_cast<std::size_t>(s.rate * 30 * std::min(load, 1.0));
        while (pool.size() < wanted) {
            pool.push_back(s.alloc());
        }
        while (pool.size() > wanted) {
            s.free(pool.back());
            pool.pop_back();
        }
    }
}

void requests_under_load_that_comes_and_goes(Stream& s, double end) {
    while (s.now() <= end) {
        s.next(s.rate * (1.1 + std::sin(s.now() / 50)));
        s.free_after(s.alloc(), s.life(1.5 + std::sin(s.now() / 50)));
    }
}

void pool_that_keeps_its_blocks_through_waves_of_load(Stream& s, double end) {
    std::vector<std::uint64_t> pool;
    while (s.now() <= end) {
        s.next(s.rate);
        const auto wanted = static_cast<std::size_t>(s.rate * 10 * (1.5 - std::cos(s.now() / 40)));
        if (pool.size() < wanted) {
            pool.push_back(s.alloc());
        } else if (pool.size() > wanted) {
            s.free(pool.back());
            pool.pop_back();
        }
    }
}

void start_up(Stream& s, double end) {
    for (int i = 0; i < 50; ++i) {
        s.alloc();
    }
    while (s.now() <= end) {
        s.next(2);
    }
}

void one_block_for_ever(Stream& s, double end) {
    s.alloc();
    while (s.now() <= end) {
        s.next(2);
    }
}

void sessions_that_live_a_minute(Stream& s, double end) {
    while (s.now() <= end) {
        s.next(s.rate / 10);
        s.free_after(s.alloc(), 60);
    }
}

void buffer_that_grows_by_realloc(Stream& s, double end) {
    std::uint64_t size = 100;
    auto buffer = s.alloc(size);
    while (s.now() <= end) {
        s.next(s.rate / 20);
        size += 10;
        buffer = s.realloc(buffer, size);
    }
}

void buffer_that_grows_by_realloc_and_stops(Stream& s, double end) {
    std::uint64_t size = 100;
    auto buffer = s.alloc(size);
    while (s.now() <= end) {
        s.next(s.rate / 20);
        if (s.now() < 60) {
            size += 10;
            buffer = s.realloc(buffer, size);
        }
    }
}

/// Of a log that is written out, and begins anew.
void buffer_that_grows_and_is_let_go(Stream& s, double end) {
    std::uint64_t size = 0;
    std::uint64_t buffer = 0;
    double since = 0;
    while (s.now() <= end) {
        s.next(s.rate / 20);
        if (buffer != 0 && s.now() - since > 15) {
            s.free(buffer);
            buffer = 0;
            size = 0;
            since = s.now();
        }
        size += 10;
        buffer = buffer == 0 ? s.alloc(size) : s.realloc(buffer, size);
    }
}

/// By a factor, as std::vector does it: the new block is there before the old one is freed.
void push_back(Stream& s, double end, double until, double factor) {
    double capacity = 1;
    auto buffer = s.alloc(8);
    for (double elements = 0; s.now() <= end; elements += s.now() < until ? 1 : 0) {
        s.next(s.rate);
        if (elements >= capacity) {
            capacity = std::ceil(capacity * factor);
            const auto larger = s.alloc(8 * static_cast<std::uint64_t>(capacity));
            s.free(buffer);
            buffer = larger;
        }
    }
}

void vector_that_is_never_cleared(Stream& s, double end) {
    push_back(s, end, end, 2);
}

void vector_that_grows_by_half(Stream& s, double end) {
    push_back(s, end, end, 1.5);
}

void list_that_grows_by_an_eighth(Stream& s, double end) {
    push_back(s, end, end, 1.125);
}

void vector_that_is_full(Stream& s, double end) {
    push_back(s, end, 40, 2);
}

/// Read again from time to time, and of another size.
void configuration_that_is_replaced(Stream& s, double end) {
    auto block = s.alloc(1000);
    while (s.now() <= end) {
        s.next(0.1);
        const auto next = s.alloc(500 + s.random() % 1000);
        s.free(block);
        block = next;
    }
}

/// Each time a larger one, of what is kept elsewhere; but it is freed at once.
void scratch_buffers_that_grow(Stream& s, double end) {
    for (std::uint64_t size = 100; s.now() <= end; size += 100) {
        s.next(2);
        s.free_after(s.alloc(size), 0.05);
    }
}

void churn_of_short_and_long_lives(Stream& s, double end) {
    while (s.now() <= end) {
        s.next(s.rate);
        s.free_after(s.alloc(), s.life(s.one_in(20) ? 10 : 0.01));
    }
}

/// Of events, in a second.
constexpr std::array kRates{20, 200, 2000};
using AtEachRate = std::array<double, kRates.size()>;

constexpr AtEachRate always(double value) {
    return {value, value, value};
}

struct Program {
    const char* name;
    void (*play)(Stream&, double end);
    AtEachRate end;
    /// With regular events, as verdicts() says it, at each rate; one stands for all three.
    std::vector<std::string> regular;
    /// What it comes to, at whatever moments the events happen, ...
    Verdict last;
    /// ... not later than at this second.
    AtEachRate sure;
    AtEachRate leaked_per_s{};
};

std::vector<Program> programs() {
    return {
        {"leak_of_one_in_a_thousand",
         leak_of_one_in_a_thousand,
         {6000, 600, 260},
         {"E0 S11 E59 P61 G159 L309 G334 L359", "E0 S11 E14 G24 L65", "E0 S11 E14 G24 L61"},
         Verdict::leaking,
         {3000, 300, 130},
         {0.02, 0.2, 2}},
        {"leak_of_every_other",
         leak_of_every_other,
         always(200),
         {"E0 G11 L61"},
         Verdict::leaking,
         always(120),
         {10, 100, 1000}},
        {"leak_of_everything",
         leak_of_everything,
         always(1800),
         {"E0 G10 L601", "E0 G11 L601", "E0 G11 L601"},
         Verdict::leaking,
         always(1500),
         {1, 10, 100}},
        {"cache_that_fills_and_stops",
         cache_that_fills_and_stops,
         always(600),
         {"E0 G11 P115"},
         Verdict::plateau,
         always(130)},
        {"cache_of_random_keys_that_fills",
         cache_of_random_keys_that_fills,
         always(600),
         {"E0 G11 P125", "E0 G11 P104 G105 P106", "E0 G11 P105"},
         Verdict::plateau,
         always(200)},
        {"cache_that_evicts_the_oldest",
         cache_that_evicts_the_oldest,
         always(700),
         {"E0 G11 S55 G59 S60"},
         Verdict::settled,
         always(100)},
        {"cache_that_evicts_anyone",
         cache_that_evicts_anyone,
         always(900),
         {"E0 G11 S44", "E0 G11 S41", "E0 G11 S41"},
         Verdict::settled,
         always(150)},
        {"leak_that_starts_late",
         leak_that_starts_late,
         always(800),
         {"E0 S11 P314 G324 L365", "E0 S11 P314 G324 L365", "E0 S11 E314 G324 L361"},
         Verdict::leaking,
         always(530),
         {0.2, 0.2, 2}},
        {"leak_that_starts_after_a_long_quiet_time",
         leak_that_starts_after_a_long_quiet_time,
         always(3000),
         {"E0 S11 E2514 G2524 L2561"},
         Verdict::leaking,
         always(2650),
         always(1)},
        {"slow_leak_under_heavy_churn",
         slow_leak_under_heavy_churn,
         always(900),
         {"E0 S11 E19 S20 G29 S30 G36 S40 G43 P61 G75 L115 G135 L155",
          "E0 S11 E55 P61 G75 E79 G95 L115 G135 L155", "E0 S11 E55 P61 G75 E79 G95 L115 G135 L155"},
         Verdict::leaking,
         always(450),
         always(0.1)},
        {"pool_that_grows_with_the_load_and_shrinks",
         pool_that_grows_with_the_load_and_shrinks,
         always(700),
         {"E0 G11 P138 S300"},
         Verdict::settled,
         always(301)},
        {"requests_under_load_that_comes_and_goes",
         requests_under_load_that_comes_and_goes,
         always(1200),
         {"E0 S11"},
         Verdict::settled,
         always(120)},
        {"pool_that_keeps_its_blocks_through_waves_of_load",
         pool_that_keeps_its_blocks_through_waves_of_load,
         always(2000),
         {"E0 P11 G17 P131 S256 P435 G526 S555 P715 G774 S800 E827 P1109 E1117 P1391 E1668 P1669",
          "E0 P11 G19 P132 G136 P138 S253 P433 G525 S560 P715 G773 S799 E839 P1127 E1147 P1414",
          "E0 P11 G19 P132 G137 P138 S252 P434 G525 S559 P715 G773 S799 E839 P1128 E1149 P1416"},
         Verdict::plateau,
         always(1700)},
        {"start_up", start_up, always(600), {"E0 P10"}, Verdict::plateau, always(10)},
        {"one_block_for_ever",
         one_block_for_ever,
         always(600),
         {"E0 P60"},
         Verdict::plateau,
         always(60)},
        {"sessions_that_live_a_minute",
         sessions_that_live_a_minute,
         always(900),
         {"E0 G10 S84", "E0 G11 S80 G81 S90", "E0 G11 S80 G81 S90"},
         Verdict::settled,
         always(130)},
        {"buffer_that_grows_by_realloc",
         buffer_that_grows_by_realloc,
         always(600),
         {"E0 G10"},
         Verdict::growing,
         {40, 20, 20}},
        {"buffer_that_grows_by_realloc_and_stops",
         buffer_that_grows_by_realloc_and_stops,
         always(600),
         {"E0 G10 S64 P69 S72 P73", "E0 G10 P68", "E0 G10 P68"},
         Verdict::plateau,
         always(100)},
        {"buffer_that_grows_and_is_let_go",
         buffer_that_grows_and_is_let_go,
         always(600),
         {"E0 G10 S16", "E0 G11 S15 G29 S30", "E0 G11 S15 G29 S30"},
         Verdict::settled,
         always(100)},
        {"vector_that_is_never_cleared",
         vector_that_is_never_cleared,
         always(400),
         {"E0 G10"},
         Verdict::growing,
         always(30)},
        {"vector_that_grows_by_half",
         vector_that_grows_by_half,
         always(400),
         {"E0 G10"},
         Verdict::growing,
         always(30)},
        {"list_that_grows_by_an_eighth",
         list_that_grows_by_an_eighth,
         always(400),
         {"E0 G10"},
         Verdict::growing,
         always(30)},
        {"vector_that_is_full",
         vector_that_is_full,
         always(600),
         {"E0 G10 S61 P63", "E0 G10 S55 P64", "E0 G10 S68 P83 S96 P99"},
         Verdict::plateau,
         always(150)},
        {"configuration_that_is_replaced",
         configuration_that_is_replaced,
         always(1200),
         {"E0 S10 E17 S20"},
         Verdict::settled,
         always(100)},
        {"scratch_buffers_that_grow",
         scratch_buffers_that_grow,
         always(600),
         {"E0 S10"},
         Verdict::settled,
         always(100)},
        {"churn_of_short_and_long_lives",
         churn_of_short_and_long_lives,
         always(1200),
         {"E0 S11", "E0 G11 S13 G14 S15", "E0 G11 S14"},
         Verdict::settled,
         always(150)},
    };
}

/// "E0 G11 P115": too early at first, growing from the eleventh second on, then plateau.
std::string verdicts(const Stream& stream) {
    constexpr std::string_view kNames = "ESPGL";
    std::string result;
    char last = ' ';
    for (const Stream::Said& said : stream.said) {
        const char verdict = kNames.at(static_cast<std::size_t>(said.judgement.verdict));
        if (verdict != last) {
            result += fmt::format("{}{}{}", result.empty() ? "" : " ", verdict, said.second);
            last = verdict;
        }
    }
    return result;
}

struct RegularEvents : testing::TestWithParam<std::tuple<Program, std::size_t>> {};

TEST_P(RegularEvents, HaveTheVerdictOfEachSecond) {
    const auto& [program, rate] = GetParam();
    Stream stream(kRates.at(rate), std::nullopt);
    program.play(stream, program.end.at(rate));
    EXPECT_EQ(verdicts(stream), program.regular.at(program.regular.size() == 1 ? 0 : rate));
    const double leaked = program.leaked_per_s.at(rate);
    EXPECT_NEAR(stream.said.back().judgement.blocks_per_s, leaked, leaked / 1000);
}

struct RandomEvents : testing::TestWithParam<std::tuple<Program, std::size_t, unsigned>> {};

TEST_P(RandomEvents, ComeToTheSame) {
    const auto& [program, rate, seed] = GetParam();
    Stream stream(kRates.at(rate), seed);
    program.play(stream, program.end.at(rate));
    for (const auto& [second, judgement] : stream.said) {
        if (second < 10) {
            ASSERT_EQ(judgement.verdict, Verdict::too_early)
                << "at " << second << " s: " << why(judgement);
        } else if (static_cast<double>(second) >= program.sure.at(rate)) {
            ASSERT_EQ(judgement.verdict, program.last)
                << "at " << second << " s: " << why(judgement);
        } else if (program.last != Verdict::leaking) { // no false alarm meanwhile
            ASSERT_NE(judgement.verdict, Verdict::leaking)
                << "at " << second << " s: " << why(judgement);
        }
    }
    const Judgement& last = stream.said.back().judgement;
    const double leaked = program.leaked_per_s.at(rate);
    if (leaked == 0) {
        EXPECT_EQ(last.blocks_per_s, 0);
        return;
    }
    // The newer half of the run, at least a quarter: four standard deviations of a random number.
    const double expected = leaked * std::get<reason::StayForGood>(last.reason).since_s / 4;
    EXPECT_NEAR(last.blocks_per_s, leaked, leaked * 4 / std::sqrt(expected));
    EXPECT_NEAR(last.bytes_per_s, last.blocks_per_s * 100, 1e-6);
}

std::string name_of(const Program& program, std::size_t rate) {
    return fmt::format("{}_{}", program.name, kRates.at(rate));
}

/// gtest would print the bytes of a program.
void PrintTo(const Program& program, std::ostream* out) {
    *out << program.name;
}

INSTANTIATE_TEST_SUITE_P(Programs, RegularEvents,
                         testing::Combine(testing::ValuesIn(programs()),
                                          testing::Range<std::size_t>(0, kRates.size())),
                         [](const auto& each) {
                             return name_of(std::get<0>(each.param), std::get<1>(each.param));
                         });
INSTANTIATE_TEST_SUITE_P(Programs, RandomEvents,
                         testing::Combine(testing::ValuesIn(programs()),
                                          testing::Range<std::size_t>(0, kRates.size()),
                                          testing::Values(1U, 2U)),
                         [](const auto& each) {
                             return fmt::format(
                                 "{}_{}", name_of(std::get<0>(each.param), std::get<1>(each.param)),
                                 std::get<2>(each.param));
                         });

} // namespace
} // namespace memleax

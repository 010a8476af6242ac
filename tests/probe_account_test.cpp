// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/probe_account.hpp"

#include <gtest/gtest.h>

#include "memleax/probes/probe_requests.hpp"

namespace memleax {
namespace {

TEST(ProbeAccount, CountsByStackAndArgument) {
    ProbeAccount account;
    account.on_probe("a:quiet");
    account.on_probe("a:one");
    account.on_probe("a:one");
    account.on_hit({"a:one", StackId(1), 5});
    account.on_hit({"a:one", StackId(2), 5});
    account.on_hit({"a:one", StackId(1), -5});
    account.on_hit({"b", StackId(1), std::nullopt});
    const auto& probes = account.probes();
    ASSERT_EQ(probes.size(), 3U);
    EXPECT_EQ(probes[0].name, "a:quiet");
    EXPECT_EQ(probes[0].calls, 0U);
    EXPECT_EQ(probes[1].calls, 3U);
    ASSERT_EQ(probes[1].stacks.size(), 2U);
    EXPECT_EQ(probes[1].stacks[0].stack, StackId(1));
    EXPECT_EQ(probes[1].stacks[0].calls, 2U);
    EXPECT_EQ(probes[1].stacks[1].calls, 1U);
    ASSERT_EQ(probes[1].arguments.size(), 2U);
    EXPECT_EQ(probes[1].arguments[0].value, 5);
    EXPECT_EQ(probes[1].arguments[0].calls, 2U);
    EXPECT_EQ(probes[1].arguments[1].value, -5);
    EXPECT_EQ(probes[2].calls, 1U);
    EXPECT_TRUE(probes[2].arguments.empty());
}

TEST(ProbeAccount, ValuesBeyondTheMostAreCountedTogether) {
    ProbeAccount account;
    const auto most = static_cast<std::int64_t>(ProbeAccount::kMostArguments);
    for (int times = 0; times < 2; ++times) {
        for (std::int64_t value = 0; value < most + 10; ++value) {
            account.on_hit({"p", StackId(1), value});
        }
    }
    const ProbeCalls& probe = account.probes().at(0);
    EXPECT_EQ(probe.arguments.size(), ProbeAccount::kMostArguments);
    EXPECT_EQ(probe.arguments.back().calls, 2U);
    EXPECT_EQ(probe.other_arguments, 20U);
    EXPECT_EQ(probe.calls, 2U * (static_cast<std::uint64_t>(most) + 10));
}

TEST(ProbeRequests, AreGlobsAndFunctions) {
    ProbeRequests requests;
    for (const char* wrong : {"", ":", "a:", ":b", "func*", "a b", "a:b,c"}) {
        EXPECT_FALSE(requests.add(wrong)) << wrong;
    }
    EXPECT_TRUE(requests.empty());
    EXPECT_TRUE(requests.add("libc:memory_*"));
    EXPECT_TRUE(requests.add("libc:memory_*"));
    EXPECT_TRUE(requests.add("malloc"));
    EXPECT_EQ(requests.all().size(), 2U);
    const auto is_wanted = [&requests](const char* provider, const char* name) {
        SdtProbe probe;
        probe.provider = provider;
        probe.name = name;
        return requests.wants(probe);
    };
    EXPECT_TRUE(is_wanted("libc", "memory_heap_new"));
    EXPECT_FALSE(is_wanted("libc", "setjmp"));
    EXPECT_FALSE(is_wanted("libm", "memory_heap_new"));
    EXPECT_TRUE(requests.wants_function("malloc"));
    EXPECT_FALSE(requests.wants_function("mallocx"));
    EXPECT_TRUE(ProbeRequests::asks_for("libc:memory_*", "libc:memory_heap_new"));
    EXPECT_TRUE(ProbeRequests::asks_for("malloc", "malloc"));
    EXPECT_FALSE(ProbeRequests::asks_for("malloc", "libc:malloc"));
}

TEST(ProbeRequests, GlibcsAreExplained) {
    EXPECT_EQ(explain_probe("libc:memory_arena_new"), "an arena is made for a thread");
    EXPECT_EQ(explain_probe("libc:setjmp"), "");
}

} // namespace
} // namespace memleax

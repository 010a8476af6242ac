// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/process_list.hpp"

#include <algorithm>

#include <gtest/gtest.h>
#include <unistd.h>

#include "process_support.hpp"

namespace memleax::testing {
namespace {

// A number may be given anew between the list and what is done with it.
TEST(Descendants, AreKnownFromWhoHasTheirNumbersNow) {
    ChildProcess shell({"/bin/sh", "-c", "sh -c 'echo $$; read line; :'; :"});
    const Tid grandchild(std::stoi(shell.read_line().value()));
    const Tid child(shell.pid());
    // The child itself is the ancestor that is watched; ours are not looked for.
    const std::vector<Descendant> list = find_descendants({child});
    ASSERT_EQ(list.size(), 1U);
    EXPECT_EQ(list[0].pid, grandchild);
    EXPECT_EQ(list[0].parent, child);
    EXPECT_TRUE(is_as_listed(list, list[0]));

    std::vector<Descendant> other = list;
    --other[0].start_time;
    EXPECT_FALSE(is_as_listed(other, other[0]));
    other = list;
    other[0].parent = Tid(getpid());
    EXPECT_FALSE(is_as_listed(other, other[0]));
    // Of one between it and the ancestor: the child's number was another's when it was listed.
    other = list;
    other.push_back({child, Tid(getpid()), 1});
    EXPECT_FALSE(is_as_listed(other, other[0]));

    shell.send("end");
    EXPECT_EQ(shell.wait_for_end(), 0);
    EXPECT_FALSE(is_as_listed(list, list[0]));
}

} // namespace
} // namespace memleax::testing

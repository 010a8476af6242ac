// SPDX-License-Identifier: GPL-3.0-or-later
// The table of `stats`: what is left out where there is no room.
#include "../src/cli/stats_table.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

namespace memleax {
namespace {

/// A terminal of a certain width.
class StatsTable : public testing::Test {
  protected:
    ~StatsTable() override {
        close(master_);
        close(slave_);
    }
    std::string table(unsigned short columns, const std::vector<StatsRow>& rows,
                      StackGroups groups = StackGroups::none) {
        winsize size{24, columns, 0, 0};
        EXPECT_EQ(openpty(&master_, &slave_, nullptr, nullptr, &size), 0);
        return stats_table(Console(slave_, Options::Color::never), rows, groups);
    }
    static StatsRow row(std::uint64_t id, Verdict verdict, double bytes_per_s, std::string where) {
        StatsRow row;
        row.id = id;
        row.verdict = verdict;
        row.live = {2493, 5'000'000};
        row.expired = {2403, 4'900'000};
        row.allocated = 4986;
        row.bytes_per_s = bytes_per_s;
        row.where = std::move(where);
        return row;
    }

  private:
    int master_ = -1;
    int slave_ = -1;
};

TEST_F(StatsTable, HasAllWhereThereIsRoom) {
    StatsRow leak = row(1, Verdict::leaking, 36.7 * 1024, "shop::SessionStore::open (shop.cpp:40)");
    leak.why = "49% of blocks stay";
    EXPECT_EQ(table(200, {leak, row(12, Verdict::settled, 0, "main (main.c:1)")}),
              "ID  VERDICT     LIVE  BLOCKS  EXPIRED       GROWTH  KEPT  WHERE, WHY\n"
              " 1  leaking  4.8 MiB    2493     2403  129.0 MiB/h   50%  "
              "shop::SessionStore::open (shop.cpp:40)  (49% of blocks stay)\n"
              "12  settled  4.8 MiB    2493     2403                50%  main (main.c:1)\n");
}

TEST_F(StatsTable, LeavesColumnsOutButNotTheVerdict) {
    const std::string where = "shop::SessionStore::open (daemon.cpp:40)";
    EXPECT_EQ(table(80, {row(1, Verdict::leaking, 36.7 * 1024, where)}),
              "ID  VERDICT     LIVE       GROWTH  WHERE, WHY\n"
              " 1  leaking  4.8 MiB  129.0 MiB/h  " +
                  where + "\n");
}

TEST_F(StatsTable, WhereGoesOnInTheNextLine) {
    StatsRow leak =
        row(1, Verdict::leaking, 36.7 * 1024, "shop::SessionStore::open (leaky_daemon.cpp:40)");
    leak.why = "49%";
    EXPECT_EQ(table(80, {leak, row(12, Verdict::settled, 0, "main (main.c:1)")}),
              "ID  VERDICT     LIVE       GROWTH  WHERE, WHY\n"
              " 1  leaking  4.8 MiB  129.0 MiB/h  shop::SessionStore::open\n"
              "                                   (leaky_daemon.cpp:40)  (49%)\n"
              "12  settled  4.8 MiB               main (main.c:1)\n");
}

TEST_F(StatsTable, WhereBeginsBelowWhereTheTerminalIsNarrow) {
    EXPECT_EQ(table(40, {row(1, Verdict::leaking, 36.7 * 1024,
                             "shop::SessionStore::open (leaky_daemon.cpp:40)")}),
              "ID  VERDICT     LIVE  WHERE, WHY\n"
              " 1  leaking  4.8 MiB\n"
              "    shop::SessionStore::open\n"
              "    (leaky_daemon.cpp:40)\n");
}

TEST_F(StatsTable, IsNoWiderThanTheTerminalAndHasWhereWhole) {
    StatsRow leak = row(1, Verdict::leaking, 36.7 * 1024, std::string(200, 'f'));
    leak.why = "a reason";
    for (const unsigned short columns : {20, 60, 80, 100}) {
        std::istringstream text(table(columns, {leak}));
        std::string all;
        for (std::string line; std::getline(text, line); all += line) {
            EXPECT_LE(line.size(), columns) << line;
        }
        EXPECT_EQ(std::count(all.begin(), all.end(), 'f'), 200);
        EXPECT_NE(all.find("leaking"), std::string::npos) << all;
    }
}

TEST_F(StatsTable, NoGrowthOfWhatIsTooEarlyToTell) {
    EXPECT_EQ(table(200, {row(1, Verdict::too_early, 1e9, "main")}),
              "ID  VERDICT       LIVE  BLOCKS  EXPIRED  GROWTH  KEPT  WHERE, WHY\n"
              " 1  too early  4.8 MiB    2493     2403           50%  main\n");
}

TEST_F(StatsTable, CountsTheCallStacksOfGroups) {
    StatsRow group = row(3, Verdict::growing, 0, "libssl.so.3");
    group.stacks = 17;
    EXPECT_EQ(table(200, {group}, StackGroups::module),
              "ID  STACKS  VERDICT     LIVE  BLOCKS  EXPIRED  GROWTH  KEPT  WHERE, WHY\n"
              " 3      17  growing  4.8 MiB    2493     2403           50%  libssl.so.3\n");
}

TEST(Wrapped, EndsPiecesWhereNamesEnd) {
    using Pieces = std::vector<std::string>;
    EXPECT_EQ(wrapped("", 5), Pieces{""});
    EXPECT_EQ(wrapped("12345", 5), Pieces{"12345"});
    EXPECT_EQ(wrapped("12345 78", 5), (Pieces{"12345", "78"}));
    EXPECT_EQ(wrapped("ab::cd::ef", 9), (Pieces{"ab::cd::", "ef"}));
    EXPECT_EQ(wrapped("1234567", 3), (Pieces{"123", "456", "7"}));
    EXPECT_EQ(wrapped("\u00e4\u00f6\u00fc", 2), (Pieces{"\u00e4\u00f6", "\u00fc"}));
}

TEST(SortRows, GroupsAreInOrderOfTheirSums) {
    std::vector<StatsRow> rows(3);
    rows[0].live = {9, 10};
    rows[1].live = {2, 500};
    rows[2].live = {5, 400};
    rows[2].bytes_per_s = 7;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i].id = i;
    }
    const auto first = [&rows](StackOrder order) {
        sort_rows(rows, order);
        return rows[0].id;
    };
    EXPECT_EQ(first(StackOrder::blocks), 0U);
    EXPECT_EQ(first(StackOrder::bytes), 1U);
    EXPECT_EQ(first(StackOrder::rate), 2U);
    EXPECT_EQ(first(StackOrder::cost), 2U);
    rows[2].verdict = Verdict::lost; // a proof is above all
    const std::uint64_t lost = rows[2].id;
    EXPECT_EQ(first(StackOrder::cost), lost);
}

} // namespace
} // namespace memleax

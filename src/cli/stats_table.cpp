// SPDX-License-Identifier: GPL-3.0-or-later
#include "stats_table.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "human_text.hpp"
#include "memleax/report/growth_text.hpp"
#include "memleax/report/place_text.hpp"
#include "memleax/report/readable.hpp"
#include "memleax/report/verdict_text.hpp"

namespace memleax {

namespace {

/// Goes only where there is hardly any room for WHERE: it says how bad it is.
constexpr unsigned kLast = 5;

struct Column {
    const char* name;
    unsigned left_out; ///< 1: first; 0: never
    bool is_text;      ///< and not a number
    std::string (*text)(const StatsRow&);
};

std::string kept_text(const StatsRow& row) {
    return row.allocated == 0 ? ""
                              : share_text(static_cast<double>(row.live.blocks) /
                                           static_cast<double>(row.allocated));
}

constexpr std::array<Column, 8> kColumns{{
    {"ID", 0, false, [](const StatsRow& row) { return fmt::format("{}", row.id); }},
    {"STACKS", 4, false, [](const StatsRow& row) { return fmt::format("{}", row.stacks); }},
    {"VERDICT", 0, true, [](const StatsRow& row) { return std::string(describe(row.verdict)); }},
    {"LIVE", 0, false,
     [](const StatsRow& row) { return bytes_text(static_cast<double>(row.live.bytes)); }},
    {"BLOCKS", 3, false, [](const StatsRow& row) { return fmt::format("{}", row.live.blocks); }},
    {"EXPIRED", 2, false,
     [](const StatsRow& row) { return fmt::format("{}", row.expired.blocks); }},
    {"GROWTH", kLast, false,
     [](const StatsRow& row) {
         // Of others an hour's growth would promise what nobody knows.
         return row.verdict < Verdict::growing
                    ? std::string()
                    : growth_text(row.bytes_per_s, row.blocks_per_s, GrowthStyle::column);
     }},
    {"KEPT", 1, false, kept_text},
}};

/// A column's texts, and what it takes.
struct Cells {
    const Column* column;
    std::vector<std::string> texts;
    std::size_t width;
};

constexpr std::size_t kGap = 2;
/// Of the console, for which other columns are left out.
constexpr std::size_t kWherePercent = 60;
/// In less of it names are hard to read.
constexpr std::size_t kLeastWhere = 24;

std::vector<Cells> cells_of(const std::vector<StatsRow>& rows, StackGroups groups) {
    std::vector<Cells> all;
    for (const Column& column : kColumns) {
        if (std::string_view(column.name) == "STACKS" && groups == StackGroups::none) {
            continue;
        }
        Cells cells{&column, {}, std::string_view(column.name).size()};
        for (const StatsRow& row : rows) {
            cells.texts.push_back(column.text(row));
            cells.width = std::max(cells.width, cells.texts.back().size());
        }
        all.push_back(std::move(cells));
    }
    return all;
}

std::string padded(const std::string& text, const Cells& cells) {
    return cells.column->is_text ? fmt::format("{:<{}}", text, cells.width + kGap)
                                 : fmt::format("{:>{}}{:{}}", text, cells.width, "", kGap);
}

std::size_t width_of(const std::vector<Cells>& all) {
    std::size_t width = 0;
    for (const Cells& cells : all) {
        width += cells.width + kGap;
    }
    return width;
}

/// For WHERE, of which the longest is so wide, or until nothing more can go.
void make_room(std::vector<Cells>& all, std::size_t columns, std::size_t widest) {
    for (unsigned next = 1; next <= kLast; ++next) {
        // One name that is longer than others shall not cost all of them their columns.
        const std::size_t wanted =
            std::min(widest, next == kLast ? kLeastWhere : columns * kWherePercent / 100);
        if (width_of(all) + wanted > columns) {
            std::erase_if(all,
                          [next](const Cells& cells) { return cells.column->left_out == next; });
        }
    }
}

/// A row's lines: the columns, and WHERE, which goes on below where it begins, or further left
/// where there is hardly any room.
std::vector<std::string> lines_of(const std::string& cells, const StatsRow& row,
                                  std::size_t columns) {
    constexpr std::size_t kIndent = 4;
    std::vector<std::string> lines;
    if (cells.size() + std::min(row.where.size(), kLeastWhere) <= columns) {
        for (const std::string& piece : wrapped(row.where, columns - cells.size())) {
            lines.push_back((lines.empty() ? cells : std::string(cells.size(), ' ')) + piece);
        }
    } else {
        lines.push_back(shortened(cells.substr(0, cells.find_last_not_of(' ') + 1), columns));
        for (const std::string& piece :
             wrapped(row.where, columns > kIndent ? columns - kIndent : 1)) {
            lines.push_back(std::string(kIndent, ' ') + piece);
        }
    }
    constexpr std::size_t kLeastWhy = 12; // less says nothing
    if (!row.why.empty() && lines.back().size() + kLeastWhy <= columns) {
        lines.back() = shortened(lines.back() + "  (" + row.why + ")", columns);
    }
    return lines;
}

/// What all of a group have in common.
std::string name_of_group(const SourceFrame& frame, StackGroups groups, NameStyle style) {
    switch (groups) {
    case StackGroups::function:
        return frame_name(frame, style);
    case StackGroups::module:
        return frame.module.empty() ? frame_name(frame, style) : frame.module;
    case StackGroups::none:
    case StackGroups::line:
        break;
    }
    return place_text(frame, style);
}

StatsRow row_of(const StackRow& stack) {
    const CallStackAccount& account = stack.stack.account;
    StatsRow row;
    row.id = account.id;
    row.verdict = stack.judgement.verdict;
    row.live = account.live();
    row.expired = account.may_leak();
    row.allocated = account.alloc.blocks - account.untracked.blocks;
    row.bytes_per_s = stack.judgement.bytes_per_s;
    row.blocks_per_s = stack.judgement.blocks_per_s;
    row.why = why(stack.judgement);
    return row;
}

/// The verdict of a group is its worst, and so is the reason.
void add(const StatsRow& row, StatsRow* sum) {
    ++sum->stacks;
    if (row.verdict > sum->verdict) {
        sum->verdict = row.verdict;
        sum->why = row.why;
    }
    sum->live = sum->live + row.live;
    sum->expired = sum->expired + row.expired;
    sum->allocated += row.allocated;
    sum->bytes_per_s += row.bytes_per_s;
    sum->blocks_per_s += row.blocks_per_s;
}

} // namespace

std::vector<StatsRow> stats_rows(Session& session, ProcessAccount& process,
                                 const std::vector<StackRow>& stacks, StackGroups groups) {
    std::vector<StatsRow> rows;
    std::map<std::string, std::size_t> known;
    for (const StackRow& stack : stacks) {
        StatsRow row = row_of(stack);
        const Backtrace frames = process.names().resolve(stack.stack.id);
        const SourceFrame* frame = where(session, process, frames);
        row.where =
            frame == nullptr ? "?" : name_of_group(*frame, groups, session.options().name_style);
        if (const MemoryKind kind = stack.stack.account.kind; kind != MemoryKind::heap) {
            row.where = fmt::format("[{}] {}", describe(kind), row.where);
        }
        const auto [entry, is_new] = groups == StackGroups::none
                                         ? std::pair(known.end(), true)
                                         : known.try_emplace(row.where, rows.size());
        if (is_new) {
            rows.push_back(std::move(row));
        } else {
            add(row, &rows[entry->second]);
        }
    }
    return rows;
}

void sort_rows(std::vector<StatsRow>& rows, StackOrder order) {
    if (order == StackOrder::age) {
        return;
    }
    const auto rank_of = [order](const StatsRow& row) {
        return rank({.lost = row.verdict == Verdict::lost,
                     .bytes_per_s = row.bytes_per_s,
                     .blocks_per_s = row.blocks_per_s,
                     .live = row.live},
                    order);
    };
    std::stable_sort(rows.begin(), rows.end(), [&rank_of](const StatsRow& a, const StatsRow& b) {
        return rank_of(a) > rank_of(b);
    });
}

std::string stats_table(const Console& console, const std::vector<StatsRow>& rows,
                        StackGroups groups) {
    std::vector<Cells> all = cells_of(rows, groups);
    std::size_t widest = 0;
    for (const StatsRow& row : rows) {
        widest = std::max(widest, row.where.size());
    }
    const std::size_t columns = console.columns();
    make_room(all, columns, widest);
    std::string heading;
    for (const Cells& cells : all) {
        heading += padded(cells.column->name, cells);
    }
    std::string text =
        console.styled(Style::heading, shortened(heading + "WHERE, WHY", columns)) + "\n";
    for (std::size_t i = 0; i < rows.size(); ++i) {
        std::string cells_text;
        for (const Cells& cells : all) {
            cells_text += padded(cells.texts[i], cells);
        }
        for (const std::string& line : lines_of(cells_text, rows[i], columns)) {
            text += console.styled(style_of(rows[i].verdict), line) + '\n';
        }
    }
    return text;
}

} // namespace memleax

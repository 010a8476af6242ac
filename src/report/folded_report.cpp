// SPDX-License-Identifier: GPL-3.0-or-later
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <absl/hash/hash.h>

#include "frame_cache.hpp"
#include "frame_labels.hpp"
#include "memleax/report/report_writer.hpp"
#include "name_table.hpp"
#include "piece_buffer.hpp"

namespace memleax {

namespace {

/// A name that flamegraph.pl, inferno and speedscope take as it is. They look for the number behind
/// the last blank, so blanks may stay, as in "operator new(unsigned long)"; but flamegraph.pl takes
/// two numbers at the end of a line for those of two profiles, so no name may end in one.
std::string folded_name(std::string name) {
    for (char& c : name) {
        c = c == ';' ? ':' : c;
    }
    const std::size_t blank = name.find_last_not_of("0123456789.");
    if (blank != std::string::npos && blank + 1 < name.size() && name[blank] == ' ') {
        name[blank] = '_';
    }
    return name;
}

/// Call stacks as paths of names, equal ones added up: 10^5 of them with 50 frames are 20 MB.
class FoldedStacks {
  public:
    /// `process` and `kind` are roots' names, or "".
    template <typename Stack>
    void add(const Stack& stack, const std::string& process, const std::string& kind,
             std::uint64_t amount) {
        Path path;
        for (const std::string& root :
             {folded_name(process), kind, missing_frames_label(stack.frames, stack.end)}) {
            if (!root.empty()) {
                path.push_back(names_.number(root).first);
            }
        }
        const auto frames = stack.frames.machine_frames();
        for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
            const Path& part = frame_names_.get(
                *frame, [this](const ResolvedFrame& calls) { return names_of(calls); });
            path.insert(path.end(), part.begin(), part.end());
        }
        const auto [entry, is_new] = amounts_.try_emplace(std::move(path));
        entry->second += amount;
        if (is_new) {
            order_.push_back(&*entry);
        }
    }

    void write(ReportSink& sink) const {
        PieceBuffer out(sink);
        for (const auto* entry : order_) {
            std::string_view separator;
            for (const std::uint32_t name : entry->first) {
                out.put(separator);
                out.put(names_.name(name));
                separator = ";";
            }
            out.print(" {}\n", entry->second);
        }
        out.flush();
    }

  private:
    using Path = std::vector<std::uint32_t>; ///< numbers of names, root first
    using Amounts = std::unordered_map<Path, std::uint64_t, absl::Hash<Path>>;

    Path names_of(const ResolvedFrame& frame) {
        Path path;
        for (auto call = frame->rbegin(); call != frame->rend(); ++call) {
            path.push_back(names_.number(folded_name(function_label(*call))).first);
        }
        return path;
    }

    NameTable names_;
    FrameCache<Path> frame_names_;
    Amounts amounts_;
    std::vector<const Amounts::value_type*> order_; ///< the report's
};

void write_folded_by(std::uint64_t BlockCount::*unit, const Report& report, ReportSink& sink) {
    FoldedStacks stacks;
    for (const CallStackReport& stack : report.callstacks) {
        if (stack.live.*unit != 0) { // it would have no width
            stacks.add(stack, process_label(report, stack.process), kind_label(stack),
                       stack.live.*unit);
        }
    }
    stacks.write(sink);
}

} // namespace

void write_folded(const Report& report, ReportSink& sink) {
    write_folded_by(&BlockCount::bytes, report, sink);
}

void write_folded_blocks(const Report& report, ReportSink& sink) {
    write_folded_by(&BlockCount::blocks, report, sink);
}

void write_folded_faults(const Report& report, ReportSink& sink) {
    FoldedStacks stacks;
    if (report.page_faults) {
        for (const FaultStackReport& stack : report.page_faults->stacks) {
            stacks.add(stack, process_label(report, stack.process), "", stack.minor + stack.major);
        }
    }
    stacks.write(sink);
}

void write_folded_resident(const Report& report, ReportSink& sink) {
    FoldedStacks stacks;
    if (report.page_faults) {
        for (const FaultStackReport& stack : report.page_faults->stacks) {
            if (stack.still_bytes.value_or(0) != 0) {
                stacks.add(stack, process_label(report, stack.process), "", *stack.still_bytes);
            }
        }
    }
    stacks.write(sink);
}

} // namespace memleax

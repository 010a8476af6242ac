// SPDX-License-Identifier: GPL-3.0-or-later
/// The heap of a watched process at one moment, with all that is known of it: call stacks from the
/// account, names from the symbols, classes, holders, types. For the main thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memleax/analysis/common_offset.hpp"
#include "memleax/analysis/holders.hpp"
#include "memleax/analysis/reachability.hpp"
#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/report/fill_report.hpp"
#include "memleax/report/heap_counts.hpp"
#include "memleax/report/leak_check_report.hpp"
#include "memleax/session/shared_tracker.hpp"
#include "memleax/session/stack_names.hpp"

namespace memleax {

class HeapView {
  public:
    /// The snapshot has its details, and is complete. All that has happened before it has been
    /// told to the tracker (Watcher::bring_up_to_date()). Both references must outlive this.
    HeapView(HeapSnapshot snapshot, Tid pid, SharedTracker& tracker, StackNames& names);

    [[nodiscard]] const HeapSnapshot& snapshot() const { return snapshot_; }
    [[nodiscard]] const HeapGraph& graph() const { return snapshot_.graph; }
    [[nodiscard]] const HeapBlock& block(std::uint32_t number) const {
        return graph().blocks[number];
    }
    [[nodiscard]] LossClass loss(std::uint32_t block) const { return classes_.classes[block]; }
    [[nodiscard]] const Reachability& classes() const { return classes_; }
    /// kNoStack: not watched.
    [[nodiscard]] StackId stack(std::uint32_t block) const { return facts(block).stack; }
    /// Of the object in it; "" if that is not known.
    [[nodiscard]] const std::string& type(std::uint32_t block) const {
        return types_[facts(block).type];
    }
    /// The block that this address is in.
    [[nodiscard]] std::optional<std::uint32_t> find(RemoteAddr address) const;

    [[nodiscard]] const HolderChains& chains();
    [[nodiscard]] const RetainedSizes& retained();
    [[nodiscard]] std::size_t groups() const { return group_names_.size(); }
    /// "g_sessions, server.cpp", "stack of thread 4711".
    [[nodiscard]] const std::string& group_name(std::uint32_t group) const {
        return group_names_[group];
    }
    /// Whose roots the chain to this block begins with; kNoGroup: nothing is known.
    [[nodiscard]] std::uint32_t group_of(std::uint32_t block) const {
        return classes_.groups[block];
    }
    /// "g_sessions+16, server.cpp", of the word that points.
    [[nodiscard]] std::string root_name(std::uint64_t root);

    [[nodiscard]] BlockCount all() const;
    /// Blocks whose type is known, but for those that are gone().
    [[nodiscard]] HeapCounts by_type(const std::vector<bool>& gone = {}) const;
    /// What would be lost without each group: what two hold is in neither's.
    [[nodiscard]] HeapCounts by_holder() const;

    /// The groups that hold most of these blocks by the shortest chains, and how many.
    [[nodiscard]] std::vector<LeakHolder>
    holders_of(const std::vector<std::uint32_t>& blocks) const;

    /// By call stack: what is lost and has not been freed since, and who holds the rest.
    [[nodiscard]] StackFindings stack_findings();
    /// Of each block: it was watched, and is not live any more. Nothing is said of one that was not
    /// watched, nor of one that was set aside since. Empty: none is gone.
    [[nodiscard]] std::vector<bool> gone() const;
    /// `process`: index in the report. Without HeapCounts, and without what is gone().
    [[nodiscard]] LeakFindings findings(std::uint32_t process, const std::vector<bool>& gone);

  private:
    /// So many blocks each group holds by the shortest chains.
    using GroupCounts = std::map<std::uint32_t, std::uint64_t>;

    void find_stacks();
    void find_types(Tid pid);
    void group_roots();
    /// To be filled in: of all blocks from then on.
    BlockFacts& facts_of(std::uint32_t block);
    [[nodiscard]] BlockFacts facts(std::uint32_t block) const {
        return facts_.empty() ? BlockFacts() : facts_[block];
    }
    [[nodiscard]] std::vector<LeakHolder> most_of(const GroupCounts& counts) const;
    [[nodiscard]] std::vector<std::uint32_t> leaders() const;

    HeapSnapshot snapshot_;
    SharedTracker& tracker_;
    StackNames& names_;
    RootGroups roots_;
    std::vector<std::string> group_names_;
    Reachability classes_;
    std::optional<CommonOffset> common_offset_;
    LargeVector<BlockFacts> facts_; ///< of each block; empty if nothing is known of any
    std::vector<std::string> types_{""};
    std::optional<HolderChains> chains_;
    std::optional<RetainedSizes> retained_;
};

} // namespace memleax

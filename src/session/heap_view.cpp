// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/heap_view.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <absl/container/flat_hash_map.h>

#include "memleax/target/remote_memory.hpp"
#include "object_types.hpp"
#include "root_names.hpp"

namespace memleax {

HeapView::HeapView(HeapSnapshot snapshot, Tid pid, SharedTracker& tracker, StackNames& names)
    : snapshot_(std::move(snapshot)), tracker_(tracker), names_(names) {
    group_roots();
    classes_ = classify(graph(), roots_);
    common_offset_ = common_offset(graph(), classes_);
    snapshot_.graph.details.pointer_offsets = PointerOffsets(); // they have served
    find_stacks();
    find_types(pid);
}

std::optional<std::uint32_t> HeapView::find(RemoteAddr address) const {
    const auto& blocks = graph().blocks;
    const auto after =
        std::upper_bound(blocks.begin(), blocks.end(), address,
                         [](RemoteAddr at, const HeapBlock& block) { return at < block.address; });
    if (after == blocks.begin()) {
        return std::nullopt;
    }
    const auto block = std::prev(after);
    return static_cast<std::uint64_t>(address - block->address) < block->size
               ? std::optional(static_cast<std::uint32_t>(block - blocks.begin()))
               : std::nullopt;
}

// Only what was there then: an address may have been given out again since.
void HeapView::find_stacks() {
    struct Tracked {
        RemoteAddr address;
        StackId stack;
    };
    std::vector<Tracked> tracked;
    tracker_.for_each_block([&](const Block& block) {
        if (block.time <= snapshot_.time) {
            tracked.push_back({block.address, block.stack});
        }
    });
    std::sort(tracked.begin(), tracked.end(),
              [](const Tracked& a, const Tracked& b) { return a.address < b.address; });
    auto at = tracked.begin();
    for (std::uint32_t i = 0; i < graph().blocks.size() && at != tracked.end(); ++i) {
        const RemoteAddr address = graph().blocks[i].address;
        at = std::find_if(at, tracked.end(),
                          [address](const Tracked& each) { return each.address >= address; });
        if (at != tracked.end() && at->address == address) {
            facts_of(i).stack = at->stack;
        }
    }
}

void HeapView::find_types(Tid pid) {
    auto memory = RemoteMemory::open(pid);
    if (!memory) {
        return;
    }
    ObjectTypes types(*memory, snapshot_.mappings, names_);
    absl::flat_hash_map<std::uint64_t, std::uint32_t> by_vtable;
    std::map<std::string, std::uint32_t> by_name{{"", 0}};
    for (const FirstWord& first : graph().details.first_words) {
        const auto [known, is_new] = by_vtable.try_emplace(first.word, 0);
        if (is_new) {
            const std::string name = types.type(first.word);
            const auto [number, is_new_name] =
                by_name.try_emplace(name, static_cast<std::uint32_t>(types_.size()));
            if (is_new_name) {
                types_.push_back(name);
            }
            known->second = number->second;
        }
        if (known->second != 0) {
            facts_of(first.block).type = known->second;
        }
    }
}

BlockFacts& HeapView::facts_of(std::uint32_t block) {
    facts_.resize(graph().blocks.size());
    return facts_[block];
}

std::vector<std::uint32_t> HeapView::leaders() const {
    std::vector<std::uint32_t> result;
    for (std::uint32_t i = 0; i < classes_.classes.size(); ++i) {
        if (classes_.classes[i] == LossClass::definite) {
            result.push_back(i);
        }
    }
    return result;
}

void HeapView::group_roots() {
    RootNames names(snapshot_, names_);
    std::map<std::string, std::uint32_t> numbers;
    for (std::size_t root = 0; root < graph().roots.size(); ++root) {
        const RootNames::Name name = names.name(root);
        const std::string text = name.text();
        const auto [number, is_new] =
            numbers.try_emplace(text, static_cast<std::uint32_t>(group_names_.size()));
        if (is_new) {
            group_names_.push_back(text);
            roots_.last.push_back(name.is_last);
        }
        roots_.groups.push_back(number->second);
    }
    roots_.count = group_names_.size();
}

const HolderChains& HeapView::chains() {
    if (!chains_) {
        chains_.emplace(graph(), roots_, leaders());
    }
    return *chains_;
}

const RetainedSizes& HeapView::retained() {
    if (!retained_) {
        retained_ = retained_sizes(graph(), roots_, leaders());
    }
    return *retained_;
}

std::string HeapView::root_name(std::uint64_t root) {
    return RootNames(snapshot_, names_).name(root).text_with_offset();
}

BlockCount HeapView::all() const {
    BlockCount sum;
    for (const BlockCount& count : classes_.totals) {
        sum = sum + count;
    }
    return sum;
}

HeapCounts HeapView::by_type(const std::vector<bool>& gone) const {
    std::vector<BlockCount> counts(types_.size());
    for (std::uint32_t i = 0; i < facts_.size(); ++i) { // or nothing is known of any
        if (gone.empty() || !gone[i]) {
            counts[facts_[i].type].add(block(i).size);
        }
    }
    HeapCounts result;
    for (std::size_t type = 1; type < types_.size(); ++type) { // 0: not known
        result[types_[type]] = counts[type];
    }
    return result;
}

HeapCounts HeapView::by_holder() const {
    HeapCounts result;
    const std::vector<BlockCount> held = held_by_groups(graph(), roots_, classes_);
    for (std::uint32_t group = 0; group < groups(); ++group) {
        if (held[group].blocks > 0) {
            result[group_name(group)] = held[group];
        }
    }
    return result;
}

std::vector<LeakHolder> HeapView::most_of(const GroupCounts& counts) const {
    constexpr std::size_t kMost = 3;
    std::vector<LeakHolder> result;
    result.reserve(counts.size());
    for (const auto& [group, count] : counts) {
        result.push_back({group_name(group), count});
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const LeakHolder& a, const LeakHolder& b) { return a.blocks > b.blocks; });
    if (result.size() > kMost) {
        result.resize(kMost);
    }
    return result;
}

std::vector<LeakHolder> HeapView::holders_of(const std::vector<std::uint32_t>& blocks) const {
    GroupCounts counts;
    for (const std::uint32_t block : blocks) {
        if (const std::uint32_t group = group_of(block); group != kNoGroup) {
            ++counts[group];
        }
    }
    return most_of(counts);
}

StackFindings HeapView::stack_findings() {
    StackFindings result;
    std::map<StackId, GroupCounts> held;
    for (std::uint32_t i = 0; i < facts_.size(); ++i) {
        const StackId stack = facts_[i].stack;
        if (stack == kNoStack) {
            continue;
        }
        if (loss(i) != LossClass::definite && loss(i) != LossClass::indirect) {
            ++held[stack][group_of(i)];
            continue;
        }
        // What has been freed since was not lost: its pointer was where nobody looks.
        const bool is_there = tracker_.with([&](Tracker& tracker) {
            const auto id = tracker.blocks().find(block(i).address);
            return id && tracker.blocks()[*id].time <= snapshot_.time;
        });
        if (is_there) {
            StackFinding& finding = result[stack];
            (loss(i) == LossClass::definite ? finding.definite : finding.indirect)
                .add(block(i).size);
        }
    }
    for (const auto& [stack, counts] : held) {
        std::uint64_t blocks = 0;
        for (const auto& [group, count] : counts) {
            blocks += count;
        }
        const std::vector<LeakHolder> holders = most_of(counts);
        result[stack].held_by = HeldBy{holders.front().blocks, blocks, holders.front().name};
    }
    return result;
}

// Whoever feeds the account does not wait long.
std::vector<bool> HeapView::gone() const {
    constexpr std::uint32_t kBlocksAtOnce = 4096;
    std::vector<bool> result;
    for (std::uint32_t begin = 0; begin < facts_.size(); begin += kBlocksAtOnce) {
        const auto end = static_cast<std::uint32_t>(
            std::min<std::size_t>(std::size_t{begin} + kBlocksAtOnce, facts_.size()));
        tracker_.with([&](Tracker& tracker) {
            const auto aside = tracker.set_aside_at();
            const bool is_absence_known = !aside || *aside < snapshot_.time;
            for (std::uint32_t i = begin; i < end; ++i) {
                if (facts_[i].stack == kNoStack) {
                    continue;
                }
                const auto id = tracker.blocks().find(block(i).address);
                // The address of one that is set aside may be given out again: then it was freed.
                if (id ? tracker.blocks()[*id].time > snapshot_.time : is_absence_known) {
                    result.resize(facts_.size());
                    result[i] = true;
                }
            }
        });
    }
    return result;
}

LeakFindings HeapView::findings(std::uint32_t process, const std::vector<bool>& gone) {
    LeakFindings result;
    result.complete = true;
    result.unlisted = snapshot_.unlisted;
    result.unread = graph().lacks_roots ? kUnreadSharedText : "";
    result.pause_s = seconds(snapshot_.pause_ns);
    result.totals = classes_.totals;
    result.common_offset = common_offset_;
    for (std::uint32_t i = 0; i < gone.size(); ++i) {
        if (gone[i]) {
            BlockCount& total = result.totals.at(static_cast<std::size_t>(loss(i)));
            total = total - BlockCount{1, block(i).size};
            if (loss(i) == LossClass::possible) { // it was said of all of them
                result.common_offset.reset();
            }
        }
    }
    std::vector<LeakRecordKey> keys;
    result.records = leak_records(graph().blocks, classes_.classes, facts_, &keys, gone);
    // By record. Blocks that lie side by side mostly are of one, and held by one.
    using Key = std::tuple<LossClass, StackId, std::uint32_t, std::uint64_t>;
    std::map<Key, GroupCounts> held;
    std::pair<Key, std::uint32_t> last;
    std::uint64_t* count = nullptr;
    for (std::uint32_t i = 0; i < graph().blocks.size(); ++i) {
        const std::uint32_t group = group_of(i);
        if (group == kNoGroup || (!gone.empty() && gone[i])) {
            continue;
        }
        const BlockFacts fact = facts(i);
        const std::pair now{
            Key{loss(i), fact.stack, fact.type, fact.stack == kNoStack ? block(i).size : 0}, group};
        if (count == nullptr || now != last) {
            count = &held[now.first][group];
            last = now;
        }
        ++*count;
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
        LeakRecord& record = result.records[i];
        const auto [stack, type] = keys[i];
        record.process = process;
        record.type = types_[type];
        if (record.loss == LossClass::reachable || record.loss == LossClass::possible) {
            const std::uint64_t size = stack == kNoStack ? record.size : 0;
            record.holders = most_of(held[{record.loss, stack, type, size}]);
        }
        if (stack != kNoStack) {
            record.callstack =
                tracker_.with([id = stack](Tracker& tracker) { return tracker.number(id); });
            record.end = names_.end(stack);
            record.frames = names_.resolve(stack);
        }
    }
    return result;
}

} // namespace memleax

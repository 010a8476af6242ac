// SPDX-License-Identifier: GPL-3.0-or-later
/// The report as a model; report_writer.hpp has its forms. All numbers are exact.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memleax/analysis/verdict.hpp"
#include "memleax/base/types.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/events/mapping_event.hpp"
#include "memleax/events/seen_calls.hpp"
#include "memleax/events/source_frame.hpp"
#include "memleax/proc/memory_look.hpp"
#include "memleax/proc/stopped_share.hpp"
#include "memleax/report/folded_name.hpp"
#include "memleax/report/leak_findings.hpp"
#include "memleax/report/page_fault_report.hpp"
#include "memleax/report/probe_report.hpp"
#include "memleax/track/block_count.hpp"
#include "memleax/track/memory_error.hpp"

namespace memleax {

/// Seconds that the blocks of a call stack lived until they were freed.
struct FreedLifetime {
    double min_s = 0;
    double mean_s = 0;
    double max_s = 0;
};

/// What a call stack allocated in one piece of the session, and what is left of it.
struct IntervalReport {
    double begin_s = 0; ///< since the watching began
    double end_s = 0;
    BlockCount alloc;
    BlockCount live;
};

struct CallStackReport {
    std::uint64_t id = 0;               ///< as in the live lines; of its process
    std::uint32_t process = 0;          ///< index in Report::processes
    MemoryKind kind = MemoryKind::heap; ///< if it is not that, its blocks are mappings
    BlockCount alloc;
    BlockCount free;
    BlockCount live;
    BlockCount expired;      ///< ever
    BlockCount free_expired; ///< of those, freed afterwards
    BlockCount untracked;    ///< may have been freed while nobody watched: neither live nor freed
    BlockCount untracked_expired;                ///< of those, expired
    std::optional<FreedLifetime> freed_lifetime; ///< absent: none was freed
    std::optional<double> oldest_live_s;         ///< absent: none is live
    Backtrace frames;
    std::optional<std::size_t> where; ///< the frame that it is named by; absent: see where_of()
    StackEnd end = StackEnd::outermost;
    std::optional<Judgement> judgement;
    std::vector<IntervalReport> intervals; ///< oldest first

    /// Expired and still there.
    [[nodiscard]] BlockCount may_leak() const { return expired - free_expired - untracked_expired; }
    /// By its verdict, or as some of its blocks are lost.
    [[nodiscard]] bool is_leaking() const {
        return judgement && judgement->verdict >= Verdict::leaking;
    }
    /// Its blocks are replaced by ever larger ones, so that none of them needs to grow old.
    [[nodiscard]] bool is_ever_larger() const { return judgement && judgement->is_ever_larger(); }
    /// The text report has it.
    [[nodiscard]] bool is_in_text() const {
        return may_leak().blocks > 0 || is_leaking() || is_ever_larger();
    }
    /// It leaks, has ever larger blocks, or expired ones that nothing speaks for: too short a run
    /// is no all-clear.
    [[nodiscard]] bool is_suspect() const {
        const bool is_cleared = judgement && (judgement->verdict == Verdict::settled ||
                                              judgement->verdict == Verdict::plateau);
        return is_leaking() || is_ever_larger() || (may_leak().blocks > 0 && !is_cleared);
    }
};

/// Allocations whose return could not be watched.
struct UnfollowedReport {
    std::uint32_t process = 0; ///< index in Report::processes
    BlockCount calls;          ///< and the bytes that they asked for
    Unseen why{};
    Backtrace frames;
    StackEnd end = StackEnd::outermost;
};

/// A MemoryError (memory_error.hpp), as people read it.
struct ErrorReport {
    MemoryError error;
    std::uint32_t process = 0; ///< index in Report::processes
    /// The call stacks of the error; empty where they are not known.
    Backtrace here;
    Backtrace freed_before;
    Backtrace allocated;
};

struct Report {
    struct Target {
        std::int64_t pid = 0;
        std::string exe;
        std::string arch;
        std::uint64_t threads = 0;
    };
    /// See EventCounts in tracker.hpp.
    struct Events {
        std::uint64_t alloc = 0;
        std::uint64_t free = 0;
        std::uint64_t realloc = 0;
        std::uint64_t failed_alloc = 0;
        std::uint64_t unfollowed_alloc = 0;
        std::uint64_t unknown_free = 0;
        std::uint64_t double_free = 0;
        std::uint64_t invalid_free = 0;
        std::uint64_t mismatched_free = 0;
    };
    struct Session {
        std::string engine;
        std::string unwinder; ///< memleax, or another one; "": no stack was walked for the account
        double duration_s = 0;
        double expire_s = 0;
        std::string end_reason;           ///< time, user, target-exit, limit, error; "": it goes on
        std::int64_t started_unix_ns = 0; ///< when the watching began, CLOCK_REALTIME; 0: not known
        Events events;
        std::string saved_because = {}; ///< a mark that was passed; "": somebody wanted it
        SeenCalls calls = {};           ///< of the processes that were not stopped at each
        StopSamples stops = {};         ///< of threads that would run, all over the session
        /// One look at the heap was all (--leak-check): the rest is empty.
        bool is_look = false;
    };
    /// Of the target, at one moment.
    struct MemorySample {
        double time_s = 0;            ///< since the watching began
        std::uint64_t live_bytes = 0; ///< of the blocks that we know
        std::uint64_t rss_bytes = 0;  ///< resident set size; 0 if it could not be read
        // Of its control group, if that has a limit, and of the machine. See GroupMemory,
        // MachineMemory.
        std::optional<std::uint64_t> group_bytes = {};
        std::optional<std::uint64_t> group_limit = {};
        std::optional<std::uint64_t> available_bytes = {};
        /// Time in which some task has waited for memory, since the group was made, or the boot.
        std::optional<std::uint64_t> group_stalled_us = {};
        std::optional<std::uint64_t> machine_stalled_us = {};
    };
    /// A file with code of the target.
    struct Module {
        std::string path;
        std::string build_id;          ///< lower-case hex; "" if it has none
        AddrRange range;               ///< its executable mappings, from the first to the last
        std::uint64_t file_offset = 0; ///< of range.begin
        bool operator==(const Module&) const = default;
    };
    struct Totals {
        BlockCount live;
        BlockCount expired; ///< and still there
        std::uint64_t leaking_stacks = 0;
        std::uint64_t suspect_stacks = 0; ///< the leaking ones among them
        BlockCount untracked;             ///< neither live nor freed: see CallStackReport
    };
    /// Memory that was mapped while we watched. See MappedTotals in tracker.hpp.
    struct Mapped {
        std::uint64_t mapped = 0;
        std::uint64_t unmapped = 0;
        std::uint64_t failed = 0;
        std::array<BlockCount, kMemoryKinds> live{}; ///< by MemoryKind; not heap
        /// Bytes that are mapped now and that no call that we saw has mapped; absent: not looked
        std::optional<std::uint64_t> unexplained;
    };
    /// One of those that were watched.
    struct Process {
        unsigned number = 1; ///< as people see it
        std::int64_t pid = 0;
        std::int64_t parent = 0; ///< its pid; 0: nobody whom we watch
        std::string comm;
        std::string exe;             ///< the last one, if it has executed several
        double begin_s = 0;          ///< since the watching began
        std::optional<double> end_s; ///< absent: it has not ended
        std::optional<int> status;   ///< how it ended, as from waitpid, if that is known
        Events events;
        Totals totals;
        std::optional<Mapped> mapped;     ///< absent: not tracked
        std::optional<MemoryLooks> looks; ///< at whose memory is short; absent: nobody has looked
        /// Of one among several; absent: nobody has looked. Its records are in Report::leak_check.
        std::optional<LeakFindings> leak_check;
    };

    std::string version;
    NameStyle name_style = NameStyle::folded; ///< in text
    Target target;                            ///< the first process
    Session session;                          ///< counts are those of all processes
    Totals totals;                            ///< likewise; without allocators' stocks and such
    std::optional<Mapped> mapped;             ///< likewise; absent: mapped memory is not tracked
    bool follows_forks = false;               ///< children are watched, too
    std::vector<Process> processes;           ///< the first one first
    /// With blocks that are live, have expired, or are not followed any more; most leaked last.
    std::vector<CallStackReport> callstacks;
    /// Of what allocators have mapped, and of thread stacks: they hold blocks that are counted by
    /// themselves, and what is kept for later.
    std::vector<CallStackReport> internal_callstacks;
    std::vector<UnfollowedReport> unfollowed;   ///< most bytes last
    bool checks = false;                        ///< with --check
    std::vector<ErrorReport> errors;            ///< by process, in order of their numbers
    std::vector<MemorySample> memory;           ///< in order of time
    std::vector<Module> modules;                ///< the program first; also those that are gone
    std::optional<LeakFindings> leak_check;     ///< of all processes; absent: nobody has looked
    std::optional<PageFaultReport> page_faults; ///< absent: not tracked
    /// In the order in which they were first watched; absent: none was asked for.
    std::optional<std::vector<ProbeReport>> probes;
    /// Page faults were followed, and no allocation was seen: there is nothing to say of blocks.
    [[nodiscard]] bool has_page_faults_only() const {
        return page_faults && callstacks.empty() && totals.live.blocks == 0 &&
               session.events.alloc + session.events.realloc + session.events.unfollowed_alloc == 0;
    }
};

/// The index of the frame that a call stack is named by (own_frame.hpp).
std::size_t where_of(const CallStackReport& stack);

/// A backtrace, a line for each frame, indented by `indent` blanks.
std::string backtrace_text(const Backtrace& frames, StackEnd end, unsigned indent,
                           NameStyle style = NameStyle::folded);

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
// Our unwinder against the truth (a shadow stack) and against libunwind-ptrace, at every distinct
// instruction that real code executes, and at every 97th step besides; and libunwind as we use it
// against libunwind as libunwind-ptrace does.
#include <initializer_list>
#include <iostream>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <libunwind-ptrace.h>

#include "memleax/elf/cfi.hpp"
#include "memleax/unwind/libunwind_walker.hpp"
#include "memleax/unwind/unwinder.hpp"
#include "unwind_subject.hpp"

namespace memleax {
namespace {

using Pcs = std::vector<std::uint64_t>;

/// libunwind-ptrace on one thread.
class Reference {
  public:
    Reference() : space_(unw_create_addr_space(&_UPT_accessors, 0)) {
        unw_set_caching_policy(space_, UNW_CACHE_NONE);
    }
    ~Reference() { unw_destroy_addr_space(space_); }
    Reference(const Reference&) = delete;
    Reference& operator=(const Reference&) = delete;

    Pcs unwind(pid_t tid) {
        Pcs pcs;
        void* context = _UPT_create(tid);
        unw_cursor_t cursor;
        if (unw_init_remote(&cursor, space_, context) == 0) {
            do {
                unw_word_t pc = 0;
                unw_get_reg(&cursor, UNW_REG_IP, &pc);
                if (pc == 0) {
                    break;
                }
                pcs.push_back(pc);
            } while (pcs.size() < 1000 && unw_step(&cursor) > 0);
        }
        _UPT_destroy(context);
        return pcs;
    }

  private:
    unw_addr_space_t space_;
};

/// What comparing came to, by place ("module+offset", for people to disassemble).
///
/// Who is right is told by the shadow stack. Known exceptions, which are counted and bounded:
///
/// - rewritten: libgcc's unwinder, on its way to a landing pad, writes over the saved registers and
///   the return address of its own frame (uw_install_context, __builtin_eh_return). There is no
///   truth until it has jumped.
/// - eh_return: its last instruction, `pop %rcx; jmp *%rcx`: the frame that it jumps to has no
/// return
///   address that was ever on the stack. Both unwinders must say the same.
/// - gcc_epilogue: in a function with a realigned stack, GCC 12 forgets to say that `pop %rbp` has
///   restored rbp: the table is wrong for `lea -8(%r10),%rsp; ret`. Both must say the same.
/// - no_table: libunwind 1.6.2 guesses by rbp in code without tables, also where rbp is no frame
///   pointer (crtstuff, _init, PLT entries); and where it guesses right (no_tables.c), it goes on,
///   as it seems, from a wrong CFA, so that the next frame with a table is lost. It must be right
///   up to the first frame without a table. We must be right throughout.
/// - debug_frame: libunwind loses frames that only .debug_frame covers (it seems not to read it).
struct Tally {
    using Places = std::map<std::string, unsigned>;
    unsigned steps = 0;
    unsigned compared = 0;
    Places wrong;
    Places rewritten;
    Places eh_return;
    Places gcc_epilogue;
    Places no_table;        ///< libunwind differs behind a frame without a table
    Places reference_wrong; ///< libunwind differs elsewhere
    Places given_differs;   ///< LibunwindWalker's walk is not libunwind-ptrace's
    Unwinder::Statistics statistics;
};

std::string text(const Pcs& pcs) {
    std::string result;
    for (const std::uint64_t pc : pcs) {
        char number[32];
        snprintf(number, sizeof(number), " %lx", static_cast<unsigned long>(pc));
        result += number;
    }
    return result;
}

unsigned total(const Tally::Places& places) {
    unsigned sum = 0;
    for (const auto& [place, count] : places) {
        sum += count;
    }
    return sum;
}

/// Steps a fixture through one kind of code.
class Stepper {
  public:
    Stepper(const std::string& fixture, const std::string& kind)
        : subject_(fixture, kind), memory_(subject_.leader()),
          modules_(Tid(subject_.leader()), memory_) {}

    Tally run() {
        EXPECT_TRUE(subject_.started());
        EXPECT_TRUE(modules_.refresh().ok());
        const arch::Registers regs = Subject::registers(subject_.leader());
        const Pcs start = ours(regs);
        EXPECT_EQ(start, reference_.unwind(subject_.leader()));
        EXPECT_GE(start.size(), 4U);
        truth_.start(memory_, regs.rsp, Pcs(start.begin() + 1, start.end()));
        EXPECT_TRUE(subject_.go());
        const pid_t new_thread = run_thread(subject_.leader());
        if (new_thread != 0) {
            // The new thread is stepped in its turn; its creator waits for it.
            int status = 0;
            EXPECT_EQ(waitpid(new_thread, &status, __WALL), new_thread);
            subject_.run_on(subject_.leader());
            truth_ = {};
            run_thread(new_thread);
        }
        tally_.statistics = unwinder_.statistics();
        return tally_;
    }

  private:
    using Subject = test::Subject;

    Pcs ours(const arch::Registers& regs) {
        unwinder_.unwind(regs, 1000, &out_);
        return pcs(out_);
    }

    static Pcs pcs(const UnwoundStack& stack) {
        Pcs result;
        for (const FrameAddress frame : stack.frames) {
            result.push_back(frame.pc().value());
        }
        return result;
    }

    /// Until it exits, or has made a thread, whose id is returned.
    pid_t run_thread(pid_t tid) {
        int signal = 0;
        arch::Registers regs = Subject::registers(tid);
        for (;; ++tally_.steps) {
            const bool delivers = signal != 0;
            const int status = subject_.step(tid, signal);
            if (!WIFSTOPPED(status)) {
                return 0;
            }
            if (status >> 16 == PTRACE_EVENT_CLONE) {
                unsigned long child = 0;
                ptrace(PTRACE_GETEVENTMSG, tid, 0, &child);
                return static_cast<pid_t>(child);
            }
            const arch::Registers after = Subject::registers(tid);
            signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
            if (delivers) {
                truth_.signal(memory_, regs, after);
            } else if (signal == 0 && after.rip != regs.rip) {
                truth_.step(memory_, regs, after);
            }
            regs = after;
            if (seen_.insert(regs.rip).second || tally_.steps % 97 == 0) {
                compare(tid, regs);
            }
        }
    }

    // LibunwindWalker ends where there is no code; libunwind-ptrace may go on.
    void compare_with_given(const arch::Registers& regs, const Pcs& theirs) {
        libunwind_.unwind(regs, 1000, &out_);
        const Pcs given = pcs(out_);
        if (given != in_code(theirs)) {
            if (++tally_.given_differs[name(regs.rip)] == 1) {
                std::cout << "LibunwindWalker at " << name(regs.rip) << ": " << describe(out_.end)
                          << "\n  its own:       " << text(given)
                          << "\n  libunwind-ptrace:" << text(theirs) << std::endl;
            }
        }
    }

    void compare(pid_t tid, const arch::Registers& regs) {
        ++tally_.compared;
        const Pcs truth = truth_.pcs(regs.rip);
        const Pcs mine = ours(regs);
        const StackEnd end = out_.end;
        const Pcs theirs = reference_.unwind(tid);
        compare_with_given(regs, theirs);
        const std::string place = name(regs.rip);
        if (!truth_.intact(memory_)) {
            ++tally_.rewritten[place];
            return;
        }
        const bool right = mine == truth && end == StackEnd::outermost;
        // libunwind may give one more frame there, whose pc is an address of the stack.
        if (!right && in_code(mine) == in_code(theirs) &&
            code_is(regs.rip - 1, {0x59, 0xff, 0xe1})) {
            ++tally_.eh_return[place];
            return;
        }
        if (!right && mine == theirs &&
            (code_is(regs.rip, {0x49, 0x8d, 0x62, 0xf8, 0xc3}) ||
             code_is(regs.rip - 4, {0x49, 0x8d, 0x62, 0xf8, 0xc3}))) {
            ++tally_.gcc_epilogue[place];
            return;
        }
        const bool same_up_to_there =
            std::equal(truth.begin(), truth.begin() + frames_with_tables(truth), theirs.begin(),
                       theirs.begin() + std::min(frames_with_tables(truth), std::ssize(theirs)));
        if (theirs != truth) {
            ++(same_up_to_there ? tally_.no_table : tally_.reference_wrong)[place];
        }
        if (!right && ++tally_.wrong[place] == 1) {
            std::cout << "wrong at " << place << ": " << describe(end)
                      << "\n  truth:    " << text(truth) << "\n  ours:     " << text(mine)
                      << "\n  libunwind:" << text(theirs) << std::endl;
        }
    }

    /// As far as they are code's.
    Pcs in_code(Pcs pcs) const {
        const auto end = std::find_if(pcs.begin(), pcs.end(), [this](std::uint64_t pc) {
            return modules_.find(CodeAddr(pc)) == nullptr;
        });
        pcs.erase(end, pcs.end());
        return pcs;
    }

    bool code_is(std::uint64_t at, std::initializer_list<std::uint8_t> bytes) {
        std::vector<std::uint8_t> code(bytes.size());
        memory_.try_read(RemoteAddr(at), std::as_writable_bytes(std::span(code)));
        return std::equal(code.begin(), code.end(), bytes.begin());
    }

    /// How many frames there are up to and with the first that no table covers.
    std::ptrdiff_t frames_with_tables(const Pcs& pcs) {
        for (std::size_t i = 0; i < pcs.size(); ++i) {
            const CodeAddr pc = CodeAddr(pcs[i]) - (i == 0 ? 0 : 1);
            const Module* module = modules_.find(pc);
            if (module == nullptr) {
                return static_cast<std::ptrdiff_t>(i) + 1;
            }
            auto& table = tables_[module];
            if (table == nullptr) {
                table = std::make_unique<CfiTable>(module->image);
            }
            if (!table->row(module->to_elf(pc))) {
                return static_cast<std::ptrdiff_t>(i) + 1;
            }
        }
        return std::ssize(pcs);
    }

    std::string name(std::uint64_t pc) {
        const Module* module = modules_.find(CodeAddr(pc));
        char number[32];
        snprintf(number, sizeof(number), "+0x%lx",
                 static_cast<unsigned long>(pc - (module != nullptr ? module->load_bias : 0)));
        return (module != nullptr ? module->name : "?") + number;
    }

    Subject subject_;
    test::PlainMemory memory_;
    ModuleMap modules_;
    Unwinder unwinder_{modules_, memory_};
    LibunwindWalker libunwind_{modules_, memory_};
    Reference reference_;
    std::map<const Module*, std::unique_ptr<CfiTable>> tables_;
    test::ShadowStack truth_;
    std::set<std::uint64_t> seen_;
    UnwoundStack out_;
    Tally tally_;
};

struct Case {
    const char* fixture;
    const char* kind;
    unsigned at_least; ///< stops that must have been compared
};

class UnwindReference : public ::testing::TestWithParam<Case> {};

TEST_P(UnwindReference, EveryInstruction) {
    const Tally tally = Stepper(GetParam().fixture, GetParam().kind).run();
    std::cout << tally.steps << " steps, " << tally.compared << " compared: wrong "
              << total(tally.wrong) << ", libunwind wrong " << total(tally.reference_wrong)
              << "; rewritten " << total(tally.rewritten) << ", eh_return "
              << total(tally.eh_return) << ", gcc_epilogue " << total(tally.gcc_epilogue)
              << ", no_table " << total(tally.no_table) << "; slow walks "
              << tally.statistics.slow_walks << std::endl;
    const std::string kind = GetParam().kind;
    EXPECT_GE(tally.compared, GetParam().at_least);
    EXPECT_EQ(total(tally.wrong), 0U);
    EXPECT_EQ(total(tally.given_differs), 0U);
    EXPECT_LE(tally.rewritten.size(), kind == "throws" ? 150U : 0U);
    EXPECT_LE(tally.eh_return.size(), kind == "throws" ? 2U : 0U);
    EXPECT_LE(tally.gcc_epilogue.size(), kind == "realign" ? 2U : 0U);
    EXPECT_LE(total(tally.no_table), kind == "no_tables" ? 1000U : 100U);
    if (kind == "debug_frame") {
        EXPECT_LE(total(tally.reference_wrong), 500U);
    } else {
        for (const auto& [place, count] : tally.reference_wrong) {
            ADD_FAILURE() << "libunwind differs at " << place << ", " << count << " times";
        }
    }
}

constexpr Case kCases[] = {
    {"unwind_lazy", "calls", 1000},    {"unwind_now", "calls", 1000},
    {"unwind_lazy", "recursion", 100}, {"unwind_lazy", "realign", 100},
    {"unwind_now", "no_tables", 100},  {"unwind_now", "debug_frame", 100},
    {"unwind_lazy", "signals", 100},   {"unwind_now", "throws", 1000},
    {"unwind_lazy", "thread", 1000},
};
INSTANTIATE_TEST_SUITE_P(Kinds, UnwindReference, ::testing::ValuesIn(kCases), [](const auto& each) {
    return std::string(each.param.fixture) + "_" + each.param.kind;
});

} // namespace
} // namespace memleax

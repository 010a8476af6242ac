// SPDX-License-Identifier: GPL-3.0-or-later
// What a walk costs with a warm cache: our own stack, 10 and 50 frames deep, read by memcpy (our
// time only) and by process_vm_readv (what a stop pays).
#include <cstring>

#include <benchmark/benchmark.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "../src/unwind/module_rules.hpp"
#include "../src/unwind/walker.hpp"
#include "memleax/unwind/unwinder.hpp"

namespace {

using namespace memleax;

/// Of our own stack; of other memory only what the unwinder needs before the clock runs.
class CopyingMemory final : public MemoryReader {
  public:
    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override {
        static const std::uint64_t stack_end = end_of_stack();
        if (from.value() < stack_end && stack_end - from.value() < out.size()) {
            out = out.first(stack_end - from.value());
        }
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        std::memcpy(out.data(), reinterpret_cast<const void*>(from.value()), out.size());
        return out.size();
    }

  private:
    static std::uint64_t end_of_stack() {
        const auto maps = read_maps(Tid(getpid()));
        for (const Mapping& mapping : *maps) {
            if (mapping.path == "[stack]") {
                return mapping.range.end;
            }
        }
        return 0;
    }
};

class SystemCallMemory final : public MemoryReader {
  public:
    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override {
        const iovec local{out.data(), out.size()};
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        const iovec remote{reinterpret_cast<void*>(from.value()), out.size()};
        const ssize_t n = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
        return n < 0 ? 0 : static_cast<std::size_t>(n);
    }

  private:
    pid_t pid_ = getpid();
};

arch::Registers registers_from(const ucontext_t& context) {
    const greg_t* regs = context.uc_mcontext.gregs;
    arch::Registers result{};
    result.rip = static_cast<unsigned long long>(regs[REG_RIP]);
    result.rsp = static_cast<unsigned long long>(regs[REG_RSP]);
    result.rbp = static_cast<unsigned long long>(regs[REG_RBP]);
    result.rbx = static_cast<unsigned long long>(regs[REG_RBX]);
    result.r12 = static_cast<unsigned long long>(regs[REG_R12]);
    result.r13 = static_cast<unsigned long long>(regs[REG_R13]);
    result.r14 = static_cast<unsigned long long>(regs[REG_R14]);
    result.r15 = static_cast<unsigned long long>(regs[REG_R15]);
    return result;
}

/// A process in which every frame needs all registers: the worst case.
class OnlyRows final : public RuleSource {
  public:
    explicit OnlyRows(ModuleRules& rules) : rules_(rules) {}
    Rule rule(FrameAddress frame) override {
        const Rule rule = rules_.rule(frame);
        return rule.kind == Rule::Kind::regular ? Rule::of(Rule::Kind::slow) : rule;
    }
    const CfiRow* row(FrameAddress frame) override { return rules_.row(frame); }

  private:
    ModuleRules& rules_;
};

/// Walker under Unwinder's interface.
class SlowUnwinder {
  public:
    SlowUnwinder(const ModuleMap& modules, MemoryReader& memory)
        : rules_(modules, memory), only_rows_(rules_), walker_(only_rows_, memory) {}
    void unwind(const arch::Registers& regs, unsigned limit, UnwoundStack* out) {
        walker_.walk(regs, Walker::From::any_instruction, limit, out);
    }
    [[nodiscard]] Unwinder::Statistics statistics() const { return walker_.statistics(); }

  private:
    ModuleRules rules_;
    OnlyRows only_rows_;
    Walker walker_;
};

template <class AnyUnwinder>
__attribute__((noinline)) void measure(benchmark::State& state, AnyUnwinder& unwinder,
                                       unsigned limit) {
    ucontext_t context;
    getcontext(&context);
    const arch::Registers regs = registers_from(context);
    UnwoundStack trace;
    for (auto _ : state) {
        unwinder.unwind(regs, limit, &trace);
        benchmark::DoNotOptimize(trace.frames.data());
    }
    if (trace.frames.size() != limit) {
        state.SkipWithError("the stack is too short");
    }
    const auto& statistics = unwinder.statistics();
    state.counters["reads/walk"] =
        static_cast<double>(statistics.stack_reads) / static_cast<double>(statistics.walks);
    state.counters["slow"] = static_cast<double>(statistics.slow_walks);
}

/// Measures this many frames further in, each of about 100 bytes.
template <class AnyUnwinder>
__attribute__((noinline)) void at_depth(benchmark::State& state, AnyUnwinder& unwinder, int depth,
                                        unsigned limit) {
    char frame[64];
    benchmark::DoNotOptimize(&frame[0]);
    if (depth > 0) {
        at_depth(state, unwinder, depth - 1, limit);
    } else {
        measure(state, unwinder, limit);
    }
    benchmark::DoNotOptimize(&frame[1]); // no tail call
}

template <class Memory, class AnyUnwinder = Unwinder> void walk(benchmark::State& state) {
    Memory memory;
    SystemCallMemory files; // for the vDSO's image
    ModuleMap modules(Tid(getpid()), files);
    if (!modules.refresh()) {
        state.SkipWithError("no modules");
        return;
    }
    AnyUnwinder unwinder(modules, memory);
    const auto frames = static_cast<unsigned>(state.range(0));
    at_depth(state, unwinder, static_cast<int>(frames), frames);
}

BENCHMARK(walk<CopyingMemory>)->Arg(10)->Arg(50);
BENCHMARK_TEMPLATE(walk, CopyingMemory, SlowUnwinder)->Arg(10)->Arg(50);
BENCHMARK(walk<SystemCallMemory>)->Arg(10)->Arg(50);

} // namespace

BENCHMARK_MAIN();

// SPDX-License-Identifier: GPL-3.0-or-later
// Walks over stacks and from registers that a hostile process has made up, by the unwind tables of
// this process's own libraries.
#include <cstdio>
#include <optional>

#include <unistd.h>

#include "fuzz_support.hpp"
#include "memleax/unwind/unwinder.hpp"

using namespace memleax;

namespace {

/// Code is this process's own, everything else is the input.
class HostileMemory final : public MemoryReader {
  public:
    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override {
        if (modules != nullptr && modules->is_executable(CodeAddr(from.value()))) {
            const ssize_t got =
                pread(memory_, out.data(), out.size(), static_cast<off_t>(from.value()));
            return got > 0 ? static_cast<std::size_t>(got) : 0;
        }
        return stack != nullptr ? stack->try_read(from, out) : 0;
    }
    const ModuleMap* modules = nullptr;
    MemoryReader* stack = nullptr;

  private:
    int memory_ = fileno(std::fopen("/proc/self/mem", "re"));
};

struct World {
    HostileMemory memory;
    ModuleMap modules{Tid(getpid()), memory};
    std::vector<AddrRange> code; ///< of modules whose tables can be had
    std::optional<Unwinder> unwinder;

    World() {
        FUZZ_CHECK(modules.refresh().ok());
        memory.modules = &modules;
        for (const auto& module : modules.all()) {
            if (module->image != nullptr) {
                code.insert(code.end(), module->executable.begin(), module->executable.end());
            }
        }
        FUZZ_CHECK(!code.empty());
        unwinder.emplace(modules, memory);
    }
    /// Most numbers are no code: these are.
    [[nodiscard]] std::uint64_t some_code(std::uint64_t number) const {
        const AddrRange range = code[number % code.size()];
        return range.begin + (number >> 8U) % range.size();
    }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static World world;
    fuzz::Input input(data, size);
    const auto options = input.number<std::uint8_t>();
    arch::Registers registers = input.number<arch::Registers>();
    const auto pc = input.number<std::uint64_t>();
    arch::set_pc(registers, CodeAddr((options & 1U) != 0 ? pc : world.some_code(pc)));
    constexpr std::uint64_t kStack = 0x7ffc00000000;
    constexpr std::uint64_t kStackSize = std::uint64_t{1} << 22;
    if ((options & 2U) == 0) {
        arch::set_sp(registers, RemoteAddr(kStack + 4096 + (arch::sp(registers).value() & 4095U)));
    }
    // Words of the stack that are code, or addresses of the stack itself, lead further.
    std::vector<std::uint8_t> words;
    while (!input.empty()) {
        auto word = input.number<std::uint64_t>();
        const unsigned kind = word & 3U;
        word = kind == 0   ? word
               : kind == 1 ? kStack + (word >> 2U) % kStackSize
                           : world.some_code(word >> 2U);
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(&word);
        words.insert(words.end(), bytes, bytes + sizeof word);
    }
    fuzz::RepeatedMemory stack(kStack, kStackSize, words);
    world.memory.stack = &stack;
    constexpr unsigned kLimit = 256;
    UnwoundStack trace;
    world.unwinder->unwind(registers, kLimit, &trace);
    FUZZ_CHECK(!trace.frames.empty() && trace.frames.size() <= kLimit);
    world.unwinder->unwind_at_entry(registers, kLimit, &trace);
    FUZZ_CHECK(!trace.frames.empty() && trace.frames.size() <= kLimit);
    world.memory.stack = nullptr;
    return 0;
}

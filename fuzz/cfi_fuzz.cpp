// SPDX-License-Identifier: GPL-3.0-or-later
// .eh_frame, .eh_frame_hdr and .debug_frame: rows, the rules that are made of them, and walks that
// follow them over a stack that is the file itself.
#include "../src/unwind/walker.hpp"
#include "fuzz_support.hpp"

using namespace memleax;

namespace {

class RulesOfTable final : public RuleSource {
  public:
    explicit RulesOfTable(std::shared_ptr<ElfImage> image) : table_(std::move(image)) {}
    Rule rule(FrameAddress frame) override {
        const CfiRow* found = row(frame);
        return found != nullptr ? rule_from_row(*found) : Rule::of(Rule::Kind::frame_pointer);
    }
    const CfiRow* row(FrameAddress frame) override {
        row_ = table_.row(ElfAddr(frame.lookup_pc().value()));
        return row_ ? &*row_ : nullptr;
    }

  private:
    CfiTable table_;
    std::optional<CfiRow> row_;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto image = fuzz::image_of({data, size});
    if (image == nullptr) {
        return 0;
    }
    RulesOfTable rules(image);
    constexpr std::uint64_t kStack = 0x7ffc00000000;
    constexpr std::uint64_t kStackSize = std::uint64_t{1} << 20;
    fuzz::RepeatedMemory memory(kStack, kStackSize, {data, size});
    Walker walker(rules, memory);
    constexpr std::size_t kWalks = 16;
    constexpr unsigned kLimit = 64;
    for (const std::uint64_t address : fuzz::addresses_in(*image, kWalks)) {
        arch::Registers registers{};
        arch::set_pc(registers, CodeAddr(address));
        arch::set_sp(registers, RemoteAddr(kStack + 4096));
        UnwoundStack stack;
        walker.walk(registers, Walker::From::any_instruction, kLimit, &stack);
        FUZZ_CHECK(stack.frames.size() <= kLimit);
    }
    return 0;
}

// SPDX-License-Identifier: GPL-3.0-or-later
#ifndef MEMLEAX_WHY_WITHOUT_LIBUNWIND
#include "memleax/unwind/libunwind_walker.hpp"

#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include <libunwind.h>

#include "constant_pages.hpp"
#include "module_rules.hpp"
#include "stack_window.hpp"

// In the library, but in none of its headers; `perf` uses it the same way (tools/perf/util/
// unwind-libunwind-local.c).
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t space, unw_word_t ip,
                                                  unw_dyn_info_t* table, unw_proc_info_t* out,
                                                  int need_unwind_info, void* argument);

namespace memleax {

namespace {

/// As our own walker has it.
constexpr unsigned kMaxHandlers = 64;
/// libunwind bounds no loop of a DWARF expression, and keeps a copy of all rules for each
/// DW_CFA_remember_state. It reads byte by byte: a frame takes some hundred reads, a row far down
/// in a large function some thousand.
constexpr unsigned kMaxReadsOfStep = 65'536;
constexpr unsigned kMaxReads = 1'000'000;

/// Where DWARF has no number for the pc it comes after those that there are (UNW_AARCH64_PC);
/// UNW_REG_IP is x30 there, but for unw_get_reg().
constexpr unw_regnum_t kPcNumber =
    arch::kHasLinkRegister ? static_cast<unw_regnum_t>(arch::kDwarfRegisterCount) : UNW_REG_IP;

/// The search table of .eh_frame (Linux Standard Base, "The .eh_frame_hdr section"), in the one
/// form that linkers write:
///
///     version 1, eh_frame_ptr_enc, fde_count_enc, table_enc,    a byte each
///     eh_frame_ptr                                               4 bytes
///     fde_count                                                  4 bytes
///     fde_count entries of 8 bytes, relative to the section
struct SearchTable {
    static constexpr std::uint8_t kVersion = 1;
    static constexpr std::uint8_t kUnsigned4 = 0x03;   // DW_EH_PE_udata4
    static constexpr std::uint8_t kSigned4 = 0x0b;     // DW_EH_PE_sdata4
    static constexpr std::uint8_t kFormMask = 0x0f;    // how it is stored, not what it is based on
    static constexpr std::uint8_t kSortedTable = 0x3b; // DW_EH_PE_datarel | DW_EH_PE_sdata4

    std::uint8_t version;
    std::uint8_t pointer_encoding;
    std::uint8_t count_encoding;
    std::uint8_t table_encoding;
    std::uint32_t pointer;
    std::uint32_t count;

    [[nodiscard]] bool is_understood() const {
        const unsigned form = pointer_encoding & kFormMask;
        return version == kVersion && (form == kUnsigned4 || form == kSigned4) &&
               count_encoding == kUnsigned4 && table_encoding == kSortedTable;
    }
};
static_assert(sizeof(SearchTable) == 12);
constexpr std::uint64_t kSearchEntry = 8;

} // namespace

struct LibunwindWalker::Impl {
    const ModuleMap& modules;
    MemoryReader& memory;
    ConstantPages constant;
    StackWindow stack;
    ModuleRules rules; ///< for is_outermost() only
    std::uint64_t signature_mask = 0;
    unw_addr_space_t space = nullptr;

    // Of the walk that is under way:
    const arch::Registers* regs = nullptr;
    unsigned reads = 0;
    // Of its last step:
    unsigned reads_of_step = 0;
    bool has_table = false;
    bool met_unreadable = false;

    Impl(const ModuleMap& the_modules, MemoryReader& the_memory);
    ~Impl() { unw_destroy_addr_space(space); }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    /// Pushes the frame that the registers of the stop are in, and its callers.
    StackEnd run(FrameAddress frame, unsigned limit, UnwoundStack* out);
    StackEnd run_from_entry(const arch::Registers& entry, unsigned limit, UnwoundStack* out);
    template <class Run>
    void walk(const arch::Registers& begin, unsigned limit, UnwoundStack* out, Run run_it) {
        *out = UnwoundStack{.frames = std::move(out->frames), .end = StackEnd::limit};
        out->frames.clear();
        if (limit == 0) {
            return;
        }
        regs = &begin;
        reads = 0;
        stack.start(arch::sp(begin));
        out->end = run_it();
        stack.finish();
        regs = nullptr;
    }
    [[nodiscard]] StackEnd why_failed(int error) const;
    bool is_outermost(FrameAddress frame, std::uint64_t fp);
    [[nodiscard]] std::uint64_t without_signature(std::uint64_t word) const;
    int find_table(std::uint64_t ip, unw_proc_info_t* out, int need_unwind_info);
    std::optional<std::uint64_t> read(RemoteAddr at);
    [[nodiscard]] std::optional<std::uint64_t> register_of_stop(unw_regnum_t number) const;

    // What libunwind calls. `argument` is the Impl.
    static int find_proc_info(unw_addr_space_t, unw_word_t ip, unw_proc_info_t* out,
                              int need_unwind_info, void* argument) {
        return static_cast<Impl*>(argument)->find_table(ip, out, need_unwind_info);
    }
    static void put_unwind_info(unw_addr_space_t, unw_proc_info_t*, void*) {
        // libunwind frees what is a table's itself, and there is no other.
    }
    static int get_dyn_info_list(unw_addr_space_t, unw_word_t*, void*) { return -UNW_ENOINFO; }
    static int access_mem(unw_addr_space_t, unw_word_t at, unw_word_t* value, int write,
                          void* argument) {
        const auto word =
            write != 0 ? std::nullopt : static_cast<Impl*>(argument)->read(RemoteAddr(at));
        *value = word.value_or(0);
        return word ? 0 : -UNW_EINVAL;
    }
    static int access_reg(unw_addr_space_t, unw_regnum_t number, unw_word_t* value, int write,
                          void* argument) {
        const auto word =
            write != 0 ? std::nullopt : static_cast<Impl*>(argument)->register_of_stop(number);
        *value = word.value_or(0);
        return word ? 0 : -UNW_EBADREG;
    }
    static int access_fpreg(unw_addr_space_t, unw_regnum_t, unw_fpreg_t*, int, void*) {
        return -UNW_EBADREG;
    }
    static int resume(unw_addr_space_t, unw_cursor_t*, void*) { return -UNW_EINVAL; }
    static int get_proc_name(unw_addr_space_t, unw_word_t, char*, std::size_t, unw_word_t*, void*) {
        return -UNW_ENOINFO;
    }
};

LibunwindWalker::Impl::Impl(const ModuleMap& the_modules, MemoryReader& the_memory)
    : modules(the_modules), memory(the_memory), constant(the_modules, the_memory),
      stack(the_memory), rules(the_modules, the_memory) {
    unw_accessors_t accessors{};
    accessors.find_proc_info = find_proc_info;
    accessors.put_unwind_info = put_unwind_info;
    accessors.get_dyn_info_list_addr = get_dyn_info_list;
    accessors.access_mem = access_mem;
    accessors.access_reg = access_reg;
    accessors.access_fpreg = access_fpreg;
    accessors.resume = resume;
    accessors.get_proc_name = get_proc_name;
    space = unw_create_addr_space(&accessors, 0); // 0: our byte order
    if (space == nullptr) {
        throw std::bad_alloc();
    }
    // Its cache goes by the pc alone; a return address and an exact pc may have different rows.
    unw_set_caching_policy(space, UNW_CACHE_NONE);
}

std::uint64_t LibunwindWalker::Impl::without_signature(std::uint64_t word) const {
    const std::uint64_t rest = word & ~signature_mask;
    return rest != word && modules.is_executable(CodeAddr(rest)) ? rest : word;
}

std::optional<std::uint64_t> LibunwindWalker::Impl::read(RemoteAddr at) {
    if (++reads > kMaxReads || ++reads_of_step > kMaxReadsOfStep) {
        return std::nullopt;
    }
    if (const auto word = constant.word(at)) {
        return word;
    }
    const auto word = stack.stack_word(at);
    met_unreadable |= !word;
    return word ? std::optional(without_signature(*word)) : std::nullopt;
}

std::optional<std::uint64_t> LibunwindWalker::Impl::register_of_stop(unw_regnum_t number) const {
    if (number == kPcNumber) {
        return arch::pc(*regs).value();
    }
    // libunwind's numbers are DWARF's.
    if (number < 0 || static_cast<unsigned>(number) >= arch::kDwarfRegisterCount) {
        return std::nullopt;
    }
    return without_signature(arch::dwarf_register(*regs, static_cast<unsigned>(number)));
}

int LibunwindWalker::Impl::find_table(std::uint64_t ip, unw_proc_info_t* out,
                                      int need_unwind_info) {
    const Module* module = modules.find(CodeAddr(ip));
    if (module == nullptr || module->image == nullptr || !module->image->eh_frame_header()) {
        return -UNW_ENOINFO;
    }
    const RemoteAddr section = module->to_runtime(*module->image->eh_frame_header()).as_data();
    const auto header = memory.try_read_object<SearchTable>(section);
    if (!header || !header->is_understood()) {
        return -UNW_ENOINFO;
    }
    unw_dyn_info_t table{};
    table.format = UNW_INFO_FORMAT_REMOTE_TABLE;
    table.start_ip = module->range.begin;
    table.end_ip = module->range.end;
    table.u.rti.segbase = section.value();
    table.u.rti.table_data = section.value() + sizeof(SearchTable);
    table.u.rti.table_len = header->count * kSearchEntry / sizeof(unw_word_t);
    const int found =
        UNW_OBJ(dwarf_search_unwind_table)(space, ip, &table, out, need_unwind_info, this);
    has_table = found == 0;
    return found;
}

StackEnd LibunwindWalker::Impl::why_failed(int error) const {
    if (error == -UNW_EBADFRAME) { // the caller's frame is this one
        return StackEnd::not_increasing;
    }
    if (!has_table) {
        return StackEnd::no_rule;
    }
    return met_unreadable ? StackEnd::bad_memory : StackEnd::bad_rule;
}

// Of a frame of which libunwind says that it has no caller: it does so, too, where it has no table
// and does not believe the frame pointer; and where there is a link register it goes by that if it
// cannot evaluate a table, until it is used up.
bool LibunwindWalker::Impl::is_outermost(FrameAddress frame, std::uint64_t fp) {
    if (!has_table) {
        return fp == 0;
    }
    return !arch::kHasLinkRegister || rules.rule(frame).kind == Rule::Kind::outermost;
}

StackEnd LibunwindWalker::Impl::run(FrameAddress frame, unsigned limit, UnwoundStack* out) {
    unsigned handlers = 0;
    unw_cursor_t cursor;
    int result = unw_init_remote(&cursor, space, this);
    for (;;) {
        out->frames.push_back(frame);
        const bool interrupts = result == 0 && unw_is_signal_frame(&cursor) > 0;
        unw_word_t fp = 0;
        unw_get_reg(&cursor, static_cast<int>(arch::kDwarfFramePointer), &fp);
        reads_of_step = 0;
        has_table = false;
        met_unreadable = false;
        result = result < 0 ? result : unw_step(&cursor);
        unw_word_t pc = 0;
        if (result < 0 || (result > 0 && unw_get_reg(&cursor, UNW_REG_IP, &pc) != 0)) {
            return why_failed(result);
        }
        if (pc == 0) {
            return is_outermost(frame, fp) ? StackEnd::outermost : why_failed(-UNW_ENOINFO);
        }
        const CodeAddr caller(pc);
        frame = interrupts ? FrameAddress::exact(caller) : FrameAddress::return_address(caller);
        if (interrupts) {
            out->crossed_signal_frame = true;
            if (++handlers > kMaxHandlers) {
                return StackEnd::not_increasing;
            }
        }
        const bool is_code = frame.pc() == caller && modules.is_executable(frame.lookup_pc());
        if (!is_code && !interrupts) {
            return has_table ? StackEnd::not_code : StackEnd::no_rule;
        }
        if (out->frames.size() >= limit) {
            return StackEnd::limit;
        }
        result = 0;
    }
}

StackEnd LibunwindWalker::Impl::run_from_entry(const arch::Registers& entry, unsigned limit,
                                               UnwoundStack* out) {
    out->frames.push_back(FrameAddress::exact(arch::pc(entry)));
    std::uint64_t word = 0;
    if (const auto in_register = arch::return_address_in_register(entry)) {
        word = in_register->value() & ~signature_mask;
    } else if (const auto on_stack = stack.stack_word(arch::sp(entry))) {
        word = *on_stack;
    } else {
        return StackEnd::bad_memory;
    }
    if (word == 0) {
        return StackEnd::outermost;
    }
    if (limit == 1) {
        return StackEnd::limit;
    }
    const FrameAddress caller = FrameAddress::return_address(CodeAddr(word));
    if (!modules.is_executable(caller.lookup_pc())) {
        out->frames.push_back(caller);
        return StackEnd::unknown_code;
    }
    // As the caller's are after the return, but that libunwind takes the pc of its first frame for
    // an exact one. So it gets the one to look up with, save where the handler of a signal returns.
    arch::Registers after = entry;
    arch::set_sp(after, arch::sp_after_return(entry));
    const bool is_handlers = rules.rule(caller).kind == Rule::Kind::signal_frame;
    arch::set_pc(after, is_handlers ? caller.pc() : caller.lookup_pc());
    regs = &after;
    return run(caller, limit, out);
}

LibunwindWalker::LibunwindWalker(const ModuleMap& modules, MemoryReader& memory)
    : impl_(std::make_unique<Impl>(modules, memory)) {}

LibunwindWalker::~LibunwindWalker() = default;

void LibunwindWalker::unwind(const arch::Registers& regs, unsigned limit, UnwoundStack* out) {
    impl_->walk(regs, limit, out,
                [&] { return impl_->run(FrameAddress::exact(arch::pc(regs)), limit, out); });
}

void LibunwindWalker::unwind_at_entry(const arch::Registers& regs, unsigned limit,
                                      UnwoundStack* out) {
    impl_->walk(regs, limit, out, [&] { return impl_->run_from_entry(regs, limit, out); });
}

const char* LibunwindWalker::reason_against() {
    return nullptr;
}

void LibunwindWalker::set_signature_mask(std::uint64_t mask) {
    impl_->signature_mask = mask;
}

void LibunwindWalker::modules_changed() {
    impl_->constant.forget();
    impl_->rules.modules_changed();
}

} // namespace memleax

#endif

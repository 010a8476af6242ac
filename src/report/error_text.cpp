// SPDX-License-Identifier: GPL-3.0-or-later
// A MemoryError in words.
#include <fmt/format.h>

#include "memleax/report/live_lines.hpp"
#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

constexpr unsigned kIndent = 4;

const char* begun_by(AllocatedBy by) {
    switch (by) {
    case AllocatedBy::c:
        return "malloc";
    case AllocatedBy::operator_new:
        return "operator new";
    case AllocatedBy::array_new:
        return "operator new[]";
    default:
        return "another function";
    }
}

const char* ended_by(const MemoryError& error) {
    switch (error.freed_by) {
    case AllocatedBy::c:
        return error.by_realloc ? "realloc" : "free";
    case AllocatedBy::operator_new:
        return "operator delete";
    case AllocatedBy::array_new:
        return "operator delete[]";
    default:
        return "another function";
    }
}

std::string block_text(const MemoryError& error) {
    const std::string size = error.size != 0 ? " of " + number_of(error.size, "byte") : "";
    return fmt::format("the block{} at {:#x}", size, error.block.value());
}

std::string what(const MemoryError& error) {
    const char* call = error.by_realloc ? "realloc" : "free";
    switch (error.kind) {
    case MemoryError::Kind::double_free:
        return block_text(error) + " is freed a second time";
    case MemoryError::Kind::realloc_freed:
        return block_text(error) + " is reallocated after its free";
    case MemoryError::Kind::inside_block:
        return fmt::format("{} of {:#x}, which is {} inside {}", call, error.address.value(),
                           number_of(error.address.value() - error.block.value(), "byte"),
                           block_text(error));
    case MemoryError::Kind::inside_freed:
        return fmt::format(
            "{} of {:#x}, which is {} inside {}, freed before", call, error.address.value(),
            number_of(error.address.value() - error.block.value(), "byte"), block_text(error));
    case MemoryError::Kind::never_allocated:
        return fmt::format("{} of {:#x}, which was never allocated", call, error.address.value());
    case MemoryError::Kind::mismatch:
        return fmt::format("{}, from {}, is ended by {}", block_text(error),
                           begun_by(error.allocated_by), ended_by(error));
    }
    return "";
}

} // namespace

std::string memory_error(const ErrorReport& report, NameStyle style) {
    const MemoryError& error = report.error;
    std::string text = fmt::format("Error[{}]: {}", error.number, what(error));
    if (error.count != 1) {
        text += fmt::format(", {} times", error.count);
    }
    if (report.here.empty() && report.freed_before.empty() && report.allocated.empty()) {
        return text + "\n";
    }
    text += report.here.empty() ? "\n" : ", here:\n";
    text += backtrace_text(report.here, StackEnd::outermost, kIndent, style);
    if (!report.freed_before.empty()) {
        text += "  it was freed here:\n" +
                backtrace_text(report.freed_before, StackEnd::outermost, kIndent, style);
    }
    if (!report.allocated.empty()) {
        text += "  it was allocated here:\n" +
                backtrace_text(report.allocated, StackEnd::outermost, kIndent, style);
    }
    return text;
}

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
#include "live_printer.hpp"

#include "memleax/base/clock.hpp"
#include "memleax/report/live_lines.hpp"

namespace memleax {

bool LivePrinter::is_hidden(const Notice& notice) {
    return !filter_.empty() && notice.stack != kNoStack &&
           notice.kind != Notice::Kind::block_limit && !filter_.shows(names_.resolve(notice.stack));
}

ErrorReport LivePrinter::described(const MemoryError& error) {
    if (error.count != 1) {
        return {error, 0, {}, {}, {}};
    }
    const auto frames = [this](StackId id) {
        return id == kNoStack ? Backtrace() : names_.resolve(id);
    };
    return {error, 0, frames(error.free_stack), frames(error.freed_before),
            frames(error.alloc_stack)};
}

std::string LivePrinter::text(const Notice& notice) {
    if (is_hidden(notice)) {
        return {};
    }
    switch (notice.kind) {
    case Notice::Kind::expired:
        return notice.count == 1
                   ? expired_first(notice.id, notice.size, names_.resolve(notice.stack),
                                   names_.end(notice.stack), style_)
                   : expired_again(notice.id, notice.size, notice.count);
    case Notice::Kind::expired_freed:
        return freed_after_expiry(notice.id, seconds(notice.age));
    case Notice::Kind::too_many_expired_free:
        return too_many_expired_free(notice.id);
    case Notice::Kind::memory_error:
        return memory_error(described(notice.error), style_);
    case Notice::Kind::block_limit:
        return block_limit_reached(notice.id, notice.count);
    case Notice::Kind::stack_limit:
        return stack_limit_reached(notice.count);
    }
    return {};
}

} // namespace memleax

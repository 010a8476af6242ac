// SPDX-License-Identifier: GPL-3.0-or-later
// Where the caller is when no unwind table says it: told from the instructions that come next.
//
// How far the CFA is from sp depends on the pc alone, so any path from here to the function's end
// tells it: follow the next few instructions, add up what they do to sp, and see which comes first:
//
//      ret, br x16, br x17     the return address is in x30 by then: CFA = sp
//      a store of x30          a function's beginning: it is in x30 yet; CFA = sp, or what the
//                              instructions just before pc have taken from it
//      mov x29,sp              both were saved already, and x29 has the caller's value still
//      a load of x30           it is there in memory
//      a load of x29 and x30   the frame pointer is in place: nothing to tell here
#include <algorithm>

#include "arch.hpp"
#include "decoder.hpp"

namespace memleax::arch {
inline namespace aarch64 {

namespace {

constexpr unsigned kMaxInstructions = 24;
constexpr unsigned kFp = 29;
constexpr unsigned kLink = 30;
constexpr unsigned kSp = 31;
constexpr std::size_t kBytes = 4;
constexpr std::int32_t kWord = 8;

/// A load or store whose base is sp, or an addition to sp, as far as it matters here.
struct StackAccess {
    bool loads = false;
    bool stores = false;
    std::int32_t at = 0;     ///< from sp as it is before
    std::int32_t change = 0; ///< of sp
    unsigned first = kSp;    ///< general registers; kSp: none
    unsigned second = kSp;
};

std::optional<StackAccess> read_pair(std::uint32_t word) {
    const std::uint32_t mode = field(word, 23, 2); // no-allocate, post-index, offset, pre-index
    const bool is_vector = field(word, 26, 1) != 0;
    const std::uint32_t opc = field(word, 30, 2);
    const auto scale = static_cast<std::int32_t>(is_vector ? 4U << opc : opc == 2 ? 8U : 4U);
    const auto offset = static_cast<std::int32_t>(signed_field(word, 15, 7)) * scale;
    StackAccess access;
    access.loads = field(word, 22, 1) != 0;
    access.stores = !access.loads;
    access.at = mode == 1 ? 0 : offset;
    access.change = mode == 1 || mode == 3 ? offset : 0;
    if (!is_vector && opc == 2) {
        access.first = field(word, 0, 5);
        access.second = field(word, 10, 5);
    }
    return access;
}

std::optional<StackAccess> read_single(std::uint32_t word) {
    const std::uint32_t size = field(word, 30, 2);
    const bool is_general = size == 3 && field(word, 26, 1) == 0;
    StackAccess access;
    access.loads = field(word, 22, 2) != 0;
    access.stores = !access.loads;
    if (field(word, 24, 1) != 0) { // unsigned, scaled
        access.at = static_cast<std::int32_t>(field(word, 10, 12)) << size;
    } else if (field(word, 21, 1) == 0) {
        const auto offset = static_cast<std::int32_t>(signed_field(word, 12, 9));
        const std::uint32_t mode = field(word, 10, 2); // unscaled, post-index, user, pre-index
        access.at = mode == 1 ? 0 : offset;
        access.change = mode == 1 || mode == 3 ? offset : 0;
    } else {
        return std::nullopt; // register offset, atomics
    }
    if (is_general) {
        access.first = field(word, 0, 5);
    }
    return access;
}

/// Nothing if it has nothing to do with sp.
std::optional<StackAccess> stack_access(std::uint32_t word) {
    const bool based_on_sp = field(word, 5, 5) == kSp;
    if (field(word, 27, 3) == 0b101 && field(word, 25, 1) == 0) {
        return based_on_sp ? read_pair(word) : std::nullopt;
    }
    if (field(word, 27, 3) == 0b111 && field(word, 25, 1) == 0) {
        return based_on_sp ? read_single(word) : std::nullopt;
    }
    constexpr std::uint32_t kAddOrSubtractSp = 0x910003ff; // add sp,sp,#n
    if ((word & 0xbf8003ffU) == kAddOrSubtractSp) {
        const auto n = static_cast<std::int32_t>(field(word, 10, 12))
                       << (field(word, 22, 1) != 0 ? 12 : 0);
        StackAccess access;
        access.change = field(word, 30, 1) != 0 ? -n : n;
        return access;
    }
    return std::nullopt;
}

/// add, sub, and, ... with sp as their result, in a way that is not followed here.
bool writes_sp_otherwise(std::uint32_t word) {
    const bool add_immediate = field(word, 23, 6) == 0b100010 && field(word, 29, 1) == 0;
    const bool add_extended =
        field(word, 24, 5) == 0b01011 && field(word, 21, 1) != 0 && field(word, 29, 1) == 0;
    const bool logical = field(word, 23, 6) == 0b100100 && field(word, 29, 2) != 3;
    return field(word, 0, 5) == kSp && (add_immediate || add_extended || logical);
}

bool is_return(std::uint32_t word) {
    return word == 0xd65f03c0 || (word & 0xfffffbffU) == 0xd65f0bff; // ret; retaa, retab
}

/// What the few instructions before the pc have taken from sp.
std::int32_t taken_before(std::span<const std::byte> before) {
    std::int32_t taken = 0;
    while (before.size() >= kBytes) {
        const auto word = first_word(before.last(kBytes));
        const auto access = stack_access(*word);
        if (!access || access->loads || access->change > 0) {
            break;
        }
        taken -= access->change;
        before = before.first(before.size() - kBytes);
    }
    return taken;
}

/// Follows the code from one pc on.
class Follower {
  public:
    Follower(std::span<const std::byte> before, std::span<const std::byte> code)
        : before_(before), code_(code) {}

    /// Calls end it: what follows one may be another function.
    std::optional<FrameEdge> from(std::size_t offset, std::int32_t moved,
                                  std::optional<std::int32_t> link_at) {
        while (offset + kBytes <= code_.size() && budget_-- > 0) {
            const std::uint32_t word = *first_word(code_.subspan(offset));
            if (is_return(word) || word == 0xd61f0200 || word == 0xd61f0220) { // br x16, br x17
                return at_end(moved, link_at);
            }
            if ((word & 0xffc003ffU) == 0x910003fd) { // add x29,sp,#n; with n = 0, mov x29,sp
                return at_frame_pointer(moved + static_cast<std::int32_t>(field(word, 10, 12)));
            }
            if (const auto access = stack_access(word)) {
                const bool has_link = access->first == kLink || access->second == kLink;
                if (has_link && access->stores) {
                    return FrameEdge{taken_before(before_), std::nullopt};
                }
                if (has_link && access->loads) {
                    if (access->first == kFp || access->second == kFp) {
                        return std::nullopt;
                    }
                    link_at = moved + access->at + (access->second == kLink ? kWord : 0);
                }
                moved += access->change;
            } else if (field(word, 26, 3) == 0b101) {
                const auto target = branch_target(word, offset);
                if (!target || *target <= offset) {
                    return std::nullopt; // a call, a loop, out of what was read
                }
                if (*target != offset + kBytes && field(word, 26, 5) != 0b00101) {
                    if (const auto found = from(offset + kBytes, moved, link_at)) {
                        return found;
                    }
                }
                offset = *target;
                continue;
            } else if (writes_sp_otherwise(word)) {
                return std::nullopt;
            }
            offset += kBytes;
        }
        return std::nullopt;
    }

  private:
    /// Of b, b.cond, cbz, tbz and their like; the next instruction for what does not branch.
    static std::optional<std::size_t> branch_target(std::uint32_t word, std::size_t offset) {
        std::int64_t distance = 1;
        const std::uint32_t top = field(word, 24, 8);
        if (field(word, 26, 6) == 0b000101) {
            distance = signed_field(word, 0, 26);
        } else if (top == 0x54 || field(word, 25, 6) == 0b011010) {
            distance = signed_field(word, 5, 19);
        } else if (field(word, 25, 6) == 0b011011) {
            distance = signed_field(word, 5, 14);
        } else if (top != 0xd5) {
            return std::nullopt;
        }
        const std::int64_t target = static_cast<std::int64_t>(offset) + distance * 4;
        return target >= 0 ? std::optional(static_cast<std::size_t>(target)) : std::nullopt;
    }

    [[nodiscard]] FrameEdge at_end(std::int32_t moved, std::optional<std::int32_t> link_at) const {
        if (link_at) {
            return {moved, *link_at - moved};
        }
        // PLT0 has pushed x16 and x30 before it jumps.
        for (auto rest = before_; rest.size() >= kBytes; rest = rest.subspan(kBytes)) {
            if (first_word(rest) == 0xa9bf7bf0) { // stp x16,x30,[sp,#-16]!
                return {16, -kWord};
            }
        }
        return {moved, std::nullopt};
    }

    [[nodiscard]] FrameEdge at_frame_pointer(std::int32_t record) const {
        // The pair is at sp + record; the CFA is behind it, as far as can be told.
        const std::int32_t cfa = std::max(taken_before(before_), record + 2 * kWord);
        return {cfa, record + kWord - cfa};
    }

    std::span<const std::byte> before_;
    std::span<const std::byte> code_;
    unsigned budget_ = kMaxInstructions; ///< for all branches together
};

} // namespace

std::optional<FrameEdge> frame_edge(std::span<const std::byte> before,
                                    std::span<const std::byte> at) {
    const auto first = first_word(at);
    if (first == 0xd503245f || first == 0xd503233f || first == 0xd503237f) {
        return FrameEdge{0, std::nullopt}; // bti c, paciasp, pacibsp: begins a function
    }
    return Follower(before, at).from(0, 0, std::nullopt);
}

} // namespace aarch64
} // namespace memleax::arch

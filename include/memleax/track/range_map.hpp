// SPDX-License-Identifier: GPL-3.0-or-later
/// Ranges of addresses that have a value each, and that can end in part.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "memleax/base/types.hpp"

namespace memleax {

/// No two ranges share an address. Each operation costs the logarithm of the number of pieces, and
/// what it touches. Not thread-safe.
template <typename Value> class RangeMap {
  public:
    /// All of `range` has this value.
    struct Piece {
        AddrRange range;
        Value value;
        friend bool operator==(const Piece&, const Piece&) = default;
    };

    /// `range` is not empty, and nothing is there (see cut()). It is joined to neighbours of the
    /// same value.
    void add(AddrRange range, Value value) {
        auto next = pieces_.lower_bound(range.begin);
        if (next != pieces_.end() && next->first == range.end && next->second.value == value) {
            range.end = next->second.end;
            next = pieces_.erase(next);
        }
        if (next != pieces_.begin()) {
            const auto before = std::prev(next);
            if (before->second.end == range.begin && before->second.value == value) {
                before->second.end = range.end;
                return;
            }
        }
        pieces_.emplace_hint(next, range.begin, End{range.end, value});
    }

    /// Takes out what lies in this range, lowest address first.
    std::vector<Piece> cut(AddrRange range) {
        std::vector<Piece> result;
        if (range.empty()) {
            return result;
        }
        for (auto it = first_behind(range.begin); it != pieces_.end() && it->first < range.end;) {
            const AddrRange piece{it->first, it->second.end};
            const Value value = it->second.value;
            it = pieces_.erase(it);
            if (piece.begin < range.begin) {
                pieces_.emplace_hint(it, piece.begin, End{range.begin, value});
            }
            if (piece.end > range.end) {
                it = pieces_.emplace_hint(it, range.end, End{piece.end, value});
            }
            result.push_back({piece.common_with(range), value});
        }
        return result;
    }
    /// Likewise the pieces of one value that begin in this range, each of them whole.
    std::vector<Piece> cut_all_of(const Value& value, AddrRange range) {
        std::vector<Piece> result;
        for (auto it = pieces_.lower_bound(range.begin);
             it != pieces_.end() && it->first < range.end;) {
            if (it->second.value == value) {
                result.push_back({{it->first, it->second.end}, value});
                it = pieces_.erase(it);
            } else {
                ++it;
            }
        }
        return result;
    }
    /// Adds the pieces, but for addresses that others have: those are returned.
    std::vector<Piece> add_where_free(std::span<const Piece> pieces) {
        std::vector<Piece> taken;
        for (const Piece& piece : pieces) {
            std::uint64_t at = piece.range.begin;
            while (at < piece.range.end) {
                const auto other = first_behind(at);
                const bool is_last = other == pieces_.end() || other->first >= piece.range.end;
                const std::uint64_t free_end =
                    is_last ? piece.range.end : std::max(other->first, at);
                const std::uint64_t next =
                    is_last ? piece.range.end : std::min(other->second.end, piece.range.end);
                if (free_end < next) {
                    taken.push_back({{free_end, next}, piece.value});
                }
                if (at < free_end) {
                    add({at, free_end}, piece.value);
                }
                at = next;
            }
        }
        return taken;
    }

    [[nodiscard]] std::optional<Value> find(RemoteAddr address) const {
        const auto it = first_behind(address.value());
        return it != pieces_.end() && it->first <= address.value() ? std::optional(it->second.value)
                                                                   : std::nullopt;
    }
    /// How many bytes of a range have any value.
    [[nodiscard]] std::uint64_t covered(AddrRange range) const {
        std::uint64_t bytes = 0;
        for (auto it = first_behind(range.begin); it != pieces_.end() && it->first < range.end;
             ++it) {
            bytes += AddrRange{it->first, it->second.end}.common_with(range).size();
        }
        return bytes;
    }
    /// By address.
    [[nodiscard]] std::vector<Piece> pieces() const {
        std::vector<Piece> result;
        result.reserve(pieces_.size());
        for (const auto& [begin, piece] : pieces_) {
            result.push_back({{begin, piece.end}, piece.value});
        }
        return result;
    }
    /// Of pieces.
    [[nodiscard]] std::size_t size() const { return pieces_.size(); }
    [[nodiscard]] bool empty() const { return pieces_.empty(); }
    void clear() { pieces_.clear(); }

  private:
    struct End {
        std::uint64_t end;
        Value value;
    };
    using Pieces = std::map<std::uint64_t, End>; ///< by begin

    /// The first piece that ends behind this address.
    [[nodiscard]] typename Pieces::const_iterator first_behind(std::uint64_t address) const {
        auto it = pieces_.upper_bound(address);
        if (it != pieces_.begin() && std::prev(it)->second.end > address) {
            --it;
        }
        return it;
    }

    Pieces pieces_;
};

} // namespace memleax

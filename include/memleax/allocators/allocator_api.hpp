// SPDX-License-Identifier: GPL-3.0-or-later
/// The functions that we watch, and what their arguments mean: malloc(3) and its kin, under the
/// prefixes that allocators use, C++'s operators, and what the user has named.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/name_filter.hpp"
#include "memleax/base/types.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/events/mapping_event.hpp"
#include "memleax/probes/probe_requests.hpp"

namespace memleax {

/// Which kind of function a symbol is. The order is that in which breakpoints are put in: those
/// that end blocks first, so that no block is taken for live whose end could not have been seen.
enum class AllocatorCall : std::uint8_t { free, realloc, allocate };

/// What calls and blocks belong together. Calls of one family within each other count as the
/// outermost; the handles of different ones are different, whatever their values.
using AllocatorFamily = unsigned;
/// Memory: all that is no resource of the user's.
inline constexpr AllocatorFamily kMemory = 0;

struct AllocatorFunction {
    std::string name = {}; ///< as in the symbol table
    AllocatorCall call = AllocatorCall::allocate;
    // Arguments, from 0; -1 if there is no such.
    int pointer_argument = -1; ///< the block that ends
    int size_argument = -1;
    int count_argument = -1; ///< multiplies the size
    int out_argument = -1;   ///< where the new block's address is stored; -1: it is the result
    int next_argument = -1;  ///< offset in a block of the next one that ends
    AllocatorFamily family = kMemory;
    AllocatedBy by = AllocatedBy::unclear;   ///< what it begins, or is to end
    MappingCall mapping = MappingCall::none; ///< else nothing of the above says anything
    bool throws = false;                     ///< operator new: it does not return null
    std::string nothrow_twin = {};           ///< which does the same, but returns null; empty: none
    int nothrow_argument = -1;               ///< the twin's std::nothrow_t, which this has not
    bool may_round_up = false;  ///< what it calls in turn may be asked for more bytes than it was
    bool is_descriptor = false; ///< an int of which 0 is valid, and the negative are failures
    std::string origin = {};    ///< "--alloc ..."; empty for what we know by ourselves
    std::size_t group = 0;      ///< of AllocatorApi: names with the same prefix
};

/// All functions that are looked for. Complete before the first look, and not changed after it;
/// entries and pending calls point into it, so whoever keeps those keeps a share of it.
class AllocatorApi {
  public:
    /// Those that we know by ourselves.
    AllocatorApi();
    AllocatorApi(const AllocatorApi&) = delete;
    AllocatorApi& operator=(const AllocatorApi&) = delete;

    /// malloc and its kin are also known by these names: `prefix` + "malloc", ...
    void add_prefix(const std::string& prefix);
    /// A function of the user's, whose `origin` is not empty. It takes the place of one that has
    /// its name.
    void add(AllocatorFunction function);
    /// The C++ runtime's operators are wanted, too, which only call malloc: with --check.
    void add_runtime_operators() { takes_runtime_operators_ = true; }
    [[nodiscard]] bool takes_runtime_operators() const { return takes_runtime_operators_; }
    /// What is followed: by default the heap, and no mapped memory. With any kind of the latter the
    /// C library's functions that map memory are looked for, too.
    void track(TrackedMemory kinds);
    [[nodiscard]] const TrackedMemory& tracked() const { return tracked_; }
    /// False: that is none.
    [[nodiscard]] bool add_probe(const std::string& text);
    [[nodiscard]] const ProbeRequests& probes() const { return probes_; }
    /// Does this function get a breakpoint? Others are only known by their code.
    [[nodiscard]] bool traps(const AllocatorFunction& function) const;

    /// A family for the handles of this acquire and this release function: that of either, if it
    /// has been given one, else a new one.
    AllocatorFamily resource_family(const std::string& acquire, const std::string& release);

    [[nodiscard]] const AllocatorFunction* find(std::string_view name) const;
    [[nodiscard]] AllocatorFamily families() const { return families_; }
    /// Those that the user has named.
    [[nodiscard]] std::vector<const AllocatorFunction*> of_user() const;
    /// Of all their names.
    [[nodiscard]] const NameFilter& filter() const { return filter_; }
    /// AllocatorFunction::group is less than this.
    [[nodiscard]] std::size_t groups() const { return groups_; }

  private:
    void add_known(const AllocatorFunction& function, const std::string& prefix, std::size_t group);

    std::deque<AllocatorFunction> functions_; ///< they stay where they are
    absl::flat_hash_map<std::string_view, const AllocatorFunction*> by_name_;
    NameFilter filter_;
    std::size_t groups_ = 0;
    bool takes_runtime_operators_ = false;
    AllocatorFamily families_ = kMemory + 1;
    TrackedMemory tracked_;
    ProbeRequests probes_;
};

/// The tables of known_allocators.cpp. Without prefix:
std::vector<AllocatorFunction> malloc_functions();
/// Those that map memory; and pthread_create.
std::vector<AllocatorFunction> mapping_functions();
/// The global operators new and delete, by their mangled names (64-bit size_t).
std::vector<AllocatorFunction> cxx_operators();
/// An allocator that goes by a prefix, and what it has besides malloc's kin.
struct PrefixedAllocator {
    std::string prefix;
    std::vector<AllocatorFunction> more;
};
std::vector<PrefixedAllocator> prefixed_allocators();

/// The integers and pointers that a call passes in registers, of which both our CPUs have as many
/// at least (System V ABI, AMD64, section 3.2.3; AAPCS64, section 6.8.2).
using CallArguments = std::array<std::uint64_t, 6>;

/// Bytes asked for by a call, from its arguments; all ones if count * size overflows.
std::uint64_t requested_size(const AllocatorFunction& function, const CallArguments& arguments);

/// What a function of this family gives or takes, as the address of a block. That of a resource
/// has its family in the top byte.
RemoteAddr handle_address(const AllocatorFunction& function, std::uint64_t value);
/// Is this value of a handle nothing: null, or a negative descriptor?
bool is_no_handle(const AllocatorFunction& function, std::uint64_t value);

} // namespace memleax

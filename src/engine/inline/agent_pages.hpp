// SPDX-License-Identifier: GPL-3.0-or-later
/// What a target has of ours by the inline engine: the agent's code, and its memory. By the
/// RecoveryRecord, so that the guardian can take it away as well.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <vector>

#include "agent/agent.hpp"
#include "memleax/target/own_code.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

/// No call of the process is told of any more, and none needs the tracer. False: there is no agent,
/// or it cannot be reached.
bool disable_agent(const RecoveryRecord& record, RemoteMemory& memory);

class AgentPages final : public OwnCode {
  public:
    /// It must outlive this.
    explicit AgentPages(Target& target) : target_(target) {}

    [[nodiscard]] std::vector<AddrRange> ranges() const override;
    [[nodiscard]] bool contains(CodeAddr pc) const override;
    /// Never: how far it is in the agent only the agent knows, and it is out soon.
    [[nodiscard]] bool move_out(arch::Registers* /*regs*/) const override { return false; }
    [[nodiscard]] bool will_be_back(Tid tid, RemoteAddr sp) const override;
    [[nodiscard]] bool may_be_back(Tid tid, RemoteAddr sp) const override;
    [[nodiscard]] std::set<Tid> inside() const override;
    [[nodiscard]] std::vector<AddrRange> data_ranges() const override;
    Result<void> unmap(Tid worker) override;
    /// For the target. We write to either, as a debugger does.
    enum class Rights { read, write };
    /// Memory of so many bytes at least, of zeros, which a forked child does not get. `worker` is
    /// stopped, here as below.
    Result<AddrRange> map_data(std::uint64_t bytes, Rights rights, Tid worker);
    Result<void> make_writable(AddrRange range, Tid worker);

    /// Where agent::Data is.
    [[nodiscard]] std::optional<RemoteAddr> agent_data() const;
    /// Is the stub's frame of this thread's call still on its stack? `inside` is its
    /// Progress::inside. Of a call that was left it may be for a while.
    [[nodiscard]] bool has_frame(std::uint32_t index, std::uint64_t inside) const;
    /// What is to be done with the memory as long as it is there.
    void before_unmapping(std::function<void()> read) { before_unmapping_ = std::move(read); }
    /// No call is told of any more, and none needs the tracer.
    void disable();

  private:
    /// The blocks of the threads that are in a call.
    struct Inside {
        Tid tid;
        std::uint32_t index;
        AddrRange stack;
        std::uint64_t sp; ///< Progress::inside

        /// The thread's stack ends further out than the call.
        [[nodiscard]] bool is_further_in(RemoteAddr now) const {
            return stack.contains(sp) && stack.contains(now.value()) && now.value() >= sp;
        }
    };
    [[nodiscard]] std::vector<Inside> threads_inside() const;
    /// A system call of the target's; its failure is an Error.
    Result<long> call(const char* name, Tid worker, long number,
                      std::initializer_list<std::uint64_t> arguments);

    Target& target_;
    std::function<void()> before_unmapping_;
};

} // namespace memleax

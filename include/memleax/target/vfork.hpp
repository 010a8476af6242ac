// SPDX-License-Identifier: GPL-3.0-or-later
/// A thread that has called vfork (clone with CLONE_VFORK) sleeps in the kernel, where no ptrace
/// request reaches it, until its child executes a program or ends. The child may have the thread's
/// memory or (without CLONE_VM) its own; and as we hold newborn children, it may be us that it
/// waits for.
#pragma once

namespace memleax {

class Target;
struct KernelState;

/// Is it in vfork, or in a clone, which may be one?
[[nodiscard]] bool may_wait_for_child(const KernelState& kernel);
/// Those that stand in vfork's stop go on into their wait for the child, and stop behind it.
void enter_vfork_waits(Target& target);
/// As long as nothing of ours is in the target, and none of its threads can be stopped: they may
/// wait for children that we hold. Those go on, and newborns with memory of their own, which have
/// nothing of ours in it, are let go of. Takes a millisecond.
void let_children_go_on(Target& target);

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
/// How much of its work a test can afford on a slow machine, such as an emulated one, where a stop
/// takes a millisecond or two: MEMLEAX_TEST_SHARE is the number that its repetitions are divided
/// by. Fixtures have the same in fixture.h.
#pragma once

namespace memleax::testing {

/// The affordable part of so many repetitions, at least one; all of them if nothing is said.
int share_of(int repetitions);

} // namespace memleax::testing

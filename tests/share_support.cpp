// SPDX-License-Identifier: GPL-3.0-or-later
#include "share_support.hpp"

#include <algorithm>
#include <cstdlib>

namespace memleax::testing {

int share_of(int repetitions) {
    const char* share = std::getenv("MEMLEAX_TEST_SHARE");
    return std::max(repetitions / std::max(share != nullptr ? std::atoi(share) : 1, 1), 1);
}

} // namespace memleax::testing

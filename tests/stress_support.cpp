// SPDX-License-Identifier: GPL-3.0-or-later
#include "stress_support.hpp"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "share_support.hpp"

namespace memleax::testing {

namespace {

int environment_number(const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::atoi(text) : otherwise;
}

} // namespace

Stress::Stress(int count)
    : seed_(static_cast<unsigned>(environment_number("MEMLEAX_STRESS_SEED", 1))),
      factor_(environment_number("MEMLEAX_STRESS_COUNT", 1)), left_(share_of(count * factor_)),
      random_(seed_) {}

Stress::~Stress() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    if (::testing::Test::HasFailure() && test != nullptr) {
        fmt::print(
            stderr,
            "again: MEMLEAX_STRESS_SEED={} MEMLEAX_STRESS_COUNT={} {} --gtest_filter={}.{}\n",
            seed_, factor_, std::filesystem::read_symlink("/proc/self/exe").string(),
            test->test_suite_name(), test->name());
    }
}

bool Stress::next() {
    return left_-- > 0 && !::testing::Test::HasFailure();
}

int Stress::number_to(int highest) {
    return std::uniform_int_distribution(1, highest)(random_);
}

} // namespace memleax::testing

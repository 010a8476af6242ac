// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/error.hpp"

#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

namespace memleax {

Error::Error(std::string what, int errnum) : what_(std::move(what)), errnum_(errnum) {}

Error&& Error::with_advice(std::string advice) && {
    advice_ = std::move(advice);
    return std::move(*this);
}

Error&& Error::while_doing(const std::string& task) && {
    what_ = task + ": " + what_;
    return std::move(*this);
}

std::string Error::message() const {
    return text(errnum_ != 0 ? ": " + std::generic_category().message(errnum_) : "");
}

std::string Error::reason() const {
    return text("");
}

std::string Error::text(const std::string& why) const {
    return what_ + why + (advice_.empty() ? "" : "; " + advice_);
}

void assertion_failed(const char* expression, const char* file, int line) {
    throw std::logic_error(fmt::format("{}:{}: assertion failed: {}", file, line, expression));
}

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
/// The page of the html report without its data. Generated from src/report/html/ by the build,
/// which leaves it empty where npm was not available.
#pragma once

#include <string_view>

namespace memleax {

struct HtmlPage {
    std::string_view before_verdict;
    std::string_view before_data;
    std::string_view after_data;
};

extern const HtmlPage kHtmlPage;

} // namespace memleax

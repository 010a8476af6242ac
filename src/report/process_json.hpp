// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <nlohmann/json.hpp>

#include "memleax/report/report.hpp"

namespace memleax {

/// Whose a call stack, an error or a lost block is, in the JSON report; null: it has one process.
inline void put_process(nlohmann::ordered_json& json, const Report::Process* process) {
    if (process != nullptr) {
        json["process"] = process->number;
        json["pid"] = process->pid;
    }
}

} // namespace memleax

// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe_json.hpp"

#include "frame_json.hpp"

namespace memleax {

namespace {

using Json = nlohmann::ordered_json;

Json probe_stack_json(const ProbeReport::Stack& stack) {
    Json json{{"calls", stack.calls}, {"frames", frames_json(stack.frames)}};
    if (stack.end != StackEnd::outermost) {
        json["stack_end"] = describe(stack.end);
    }
    return json;
}

} // namespace

Json probes_json(const Report& report) {
    Json json = Json::array();
    for (const ProbeReport& probe : *report.probes) {
        Json each{{"name", probe.name}};
        if (report.follows_forks) {
            const Report::Process& process = report.processes.at(probe.process);
            each["process"] = process.number;
            each["pid"] = process.pid;
        }
        each["calls"] = probe.calls;
        each["callstacks"] = Json::array();
        for (const ProbeReport::Stack& stack : probe.stacks) {
            each["callstacks"].push_back(probe_stack_json(stack));
        }
        each["arguments"] = Json::array();
        for (const ProbeCalls::Argument& argument : probe.arguments) {
            each["arguments"].push_back({{"value", argument.value}, {"calls", argument.calls}});
        }
        each["other_arguments"] = probe.other_arguments;
        json.push_back(std::move(each));
    }
    return json;
}

} // namespace memleax

#include "cnitool/trace.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

namespace tool {

namespace {

using cni::PluginRun;
using nlohmann::ordered_json;
using std::chrono::microseconds;
using Clock = std::chrono::steady_clock;

std::string milliseconds(microseconds took) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(took.count()) / 1000.0);
  return text;
}

ordered_json json_of(const PluginRun& run) {
  ordered_json out;
  out["command"] = str(run.command);
  out["type"] = run.plugin.type;
  out["file"] = run.file;
  out["microseconds"] = run.took.count();
  out["input"] = json_or_text(run.input);
  out["output"] = json_or_text(run.outcome.out);
  out["stderr"] = run.outcome.err;
  if (run.error != nullptr) out["error"] = tool::json_of(*run.error);
  return out;
}

void print(const PluginRun& run, const Output& output) {
  output.out << output.painted(Colour::kBold, cat(str(run.command), " ", run.plugin.type)) << "  "
             << output.painted(Colour::kDim, run.file) << "  " << milliseconds(run.took) << "  "
             << (run.error == nullptr ? output.painted(Colour::kGreen, "ok")
                                      : output.painted(Colour::kRed, text_of(*run.error)))
             << '\n';
  const auto block = [&output](std::string_view heading, const std::string& text) {
    if (text.empty()) return;
    output.out << indented(heading, 1) << indented(pretty(text), 2);
  };
  block("input", run.input);
  block("output", run.outcome.out);
  block("stderr", run.outcome.err);
  output.out << std::flush;
}

}  // namespace

bool trace(const Operation& operation, const Settings& settings, cni::RuntimeOptions options,
           const Output& output) {
  ordered_json calls = ordered_json::array();
  options.observer = [&](const PluginRun& run) {
    output.json ? calls.push_back(json_of(run)) : print(run, output);
  };
  std::optional<cni::Error> error;
  const auto start = Clock::now();
  try {
    run(operation, settings, options);
  } catch (const cni::Error& e) {
    error = e;
  }
  const auto took = std::chrono::duration_cast<microseconds>(Clock::now() - start);
  if (!output.json) {
    output.out << output.painted(Colour::kBold, operation.verb) << " took " << milliseconds(took)
               << '\n';
    if (error) throw *error;
    return true;
  }
  ordered_json out{{"operation", operation.verb},
                   {"network", operation.network},
                   {"ok", !error},
                   {"microseconds", took.count()},
                   {"calls", std::move(calls)}};
  if (error) out["error"] = tool::json_of(*error);
  output.print(out);
  return !error;
}

}  // namespace tool

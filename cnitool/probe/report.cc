#include "cnitool/probe/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tool::probe {

namespace {

using doctor::Finding;
using doctor::Findings;
using doctor::Level;
using nlohmann::ordered_json;

ordered_json json_of(const Findings& findings) {
  auto out = ordered_json::array();
  for (const Finding& one : findings) {
    out.push_back({{"level", doctor::str(one.level)},
                   {"what", one.what},
                   {"lines", one.lines},
                   {"why", one.why},
                   {"remedy", one.remedy}});
  }
  return out;
}

ordered_json json_of(const std::vector<Asked>& questions) {
  auto out = ordered_json::array();
  for (const Asked& one : questions) {
    ordered_json question{{"level", doctor::str(one.level)}, {"question", one.text},
                          {"network", one.pod.network},      {"containerID", one.pod.container_id},
                          {"ifname", one.pod.ifname},        {"answer", one.answer}};
    if (!one.cause.empty()) question["cause"] = one.cause;
    out.push_back(std::move(question));
  }
  return out;
}

void print_plan(const std::vector<Question>& questions, const Output& output) {
  auto all = ordered_json::array();
  for (const Question& one : questions) {
    if (output.json) {
      all.push_back({{"packet", one.packet.str()}, {"question", one.text}});
    } else {
      output.out << one.packet.str() << ": " << one.text << '\n';
    }
  }
  if (output.json) output.print({{"probes", all}});
}

void print(const std::vector<Asked>& questions, const Output& output) {
  for (const Asked& one : questions) {
    const bool is_fine = one.level == Level::kOk;
    const Colour colour = is_fine                      ? Colour::kGreen
                          : one.level == Level::kError ? Colour::kRed
                                                       : Colour::kYellow;
    constexpr std::size_t kWidth = 8;
    const std::string_view word = doctor::str(one.level);
    output.out << output.painted(colour, word) << std::string(kWidth - word.size(), ' ') << one.text
               << ": " << one.answer << '\n';
  }
}

void print(const Findings& findings, const Output& output) {
  constexpr std::size_t kMostLines = 5;
  for (const Finding& one : findings) {
    output.out << output.painted(Colour::kRed, "error") << ' ' << one.what << '\n';
    for (std::size_t i = 0; i < std::min(kMostLines, one.lines.size()); ++i) {
      output.out << "  " << one.lines[i] << '\n';
    }
    if (one.lines.size() > kMostLines) {
      output.out << "  and " << one.lines.size() - kMostLines << " more\n";
    }
    if (!one.remedy.empty()) {
      output.out << "  remedy: " << output.painted(Colour::kBold, one.remedy) << '\n';
    }
  }
}

}  // namespace

bool report(const Settings& settings, const Options& options, const Output& output) {
  if (options.dry_run) {
    print_plan(plan(settings, options), output);
    return true;
  }
  if (options.watch) return watch(settings, options, output);
  const Outcome outcome = probe(settings, options);
  if (output.json) {
    output.print({{"ok", outcome.is_fine()},
                  {"asked", outcome.questions.size()},
                  {"answered", outcome.count(Level::kOk)},
                  {"unanswered", outcome.count(Level::kUnknown)},
                  {"complete", outcome.is_whole},
                  {"limits", outcome.limits},
                  {"findings", json_of(outcome.findings)},
                  {"questions", json_of(outcome.questions)}});
    return outcome.is_fine();
  }
  if (!output.quiet) print(outcome.questions, output);
  print(outcome.findings, output);
  for (const std::string& one : outcome.limits) output.out << "note: " << one << '\n';
  if (!outcome.is_whole) output.out << "stopped before all was asked\n";
  if (output.quiet) return outcome.is_fine();
  output.out << counted(outcome.questions.size(), "question") << ", " << outcome.count(Level::kOk)
             << " answered, " << counted(outcome.findings.size(), "error") << '\n';
  return outcome.is_fine();
}

}  // namespace tool::probe

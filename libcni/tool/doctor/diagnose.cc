#include "libcni/tool/doctor/diagnose.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcni/tool/doctor/checks.h"
#include "libcni/tool/doctor/look.h"

namespace tool::doctor {

namespace {

using nlohmann::ordered_json;

struct Verdict {
  const Check* check;
  Finding finding;
};

// What was to be read for a check and could not be.
const std::string* unseen_by(const Node& node, const Check& check) {
  for (const Source source : check.needs) {
    const auto it = node.unseen.find(source);
    if (it != node.unseen.end()) return &it->second;
  }
  return nullptr;
}

std::vector<Verdict> verdicts_on(const Node& node) {
  std::vector<Verdict> out;
  for (const Check& check : all_checks()) {
    if (const std::string* const why = unseen_by(node, check)) {
      out.push_back({&check, {Level::kUnknown, cat("unreadable: ", *why)}});
      continue;
    }
    Findings findings = check.run(node);
    if (findings.empty()) findings.push_back({Level::kOk, check.fine});
    for (Finding& one : findings) out.push_back({&check, std::move(one)});
  }
  return out;
}

std::ptrdiff_t count(const std::vector<Verdict>& verdicts, Level level) {
  return std::count_if(verdicts.begin(), verdicts.end(),
                       [level](const Verdict& one) { return one.finding.level == level; });
}

Colour colour_of(Level level) {
  switch (level) {
    case Level::kOk:
      return Colour::kGreen;
    case Level::kNote:
      return Colour::kDim;
    case Level::kUnknown:
    case Level::kWarning:
      return Colour::kYellow;
    case Level::kError:
      return Colour::kRed;
  }
  return Colour::kPlain;
}

void print(const Verdict& verdict, const Output& output) {
  constexpr std::size_t kWidth = 9;
  const auto& [check, finding] = verdict;
  const std::string_view word = str(finding.level);
  const std::string blanks(kWidth, ' ');
  output.out << output.painted(colour_of(finding.level), word)
             << std::string(kWidth - word.size(), ' ') << check->name << ": " << finding.what
             << '\n';
  if (!finding.why.empty()) output.out << blanks << "why: " << finding.why << '\n';
  if (!finding.remedy.empty()) {
    output.out << blanks << "remedy: " << output.painted(Colour::kBold, finding.remedy) << '\n';
  }
}

ordered_json json_of(const std::vector<Verdict>& verdicts) {
  ordered_json out = ordered_json::array();
  for (const auto& [check, finding] : verdicts) {
    ordered_json one{{"level", str(finding.level)}, {"check", check->name}, {"what", finding.what}};
    if (!finding.why.empty()) one["why"] = finding.why;
    if (!finding.remedy.empty()) one["remedy"] = finding.remedy;
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

std::string_view str(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kNote:
      return "note";
    case Level::kUnknown:
      return "unknown";
    case Level::kWarning:
      return "warning";
    case Level::kError:
      return "error";
  }
  return "?";
}

bool report(const Node& node, const Output& output) {
  const auto verdicts = verdicts_on(node);
  const auto errors = count(verdicts, Level::kError);
  const auto warnings = count(verdicts, Level::kWarning);
  if (output.json) {
    output.print({{"ok", errors == 0},
                  {"errors", errors},
                  {"warnings", warnings},
                  {"findings", json_of(verdicts)}});
    return errors == 0;
  }
  for (const Verdict& one : verdicts) print(one, output);
  output.out << errors << (errors == 1 ? " error, " : " errors, ") << warnings
             << (warnings == 1 ? " warning" : " warnings") << '\n';
  return errors == 0;
}

bool diagnose(const Settings& settings, const cni::Env& env, const Output& output) {
  return report(look_at_node(settings, env), output);
}

}  // namespace tool::doctor

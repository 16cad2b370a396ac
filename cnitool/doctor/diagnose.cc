#include "cnitool/doctor/diagnose.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/kubernetes/checks.h"
#include "cnitool/doctor/kubernetes/look.h"
#include "cnitool/doctor/look.h"
#include "cnitool/doctor/peers.h"
#include "cnitool/doctor/places.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/doctor/probed.h"
#include "cnitool/waiting.h"

namespace tool::doctor {

namespace {

using nlohmann::ordered_json;

struct Answer {
  const Check* check;
  Finding finding;
};

// The reason why a source that the check needs could not be read; null: all were.
const std::string* unseen_by(const Node& node, const Check& check) {
  for (const auto& [source, why] : node.unseen) {
    if (check.needs.has(source)) return &why;
  }
  return nullptr;
}

// A finding about the node itself stops a pod only as an error.
bool is_about_asked(const Node& node, const Finding& one) {
  if (!node.is_of_one_pod()) return true;
  if (one.networks.empty()) return one.level == Level::kError || one.level == Level::kUnknown;
  return std::ranges::any_of(
      one.networks, [&node](const std::string& network) { return is_asked_for(node, network); });
}

void run(const Check& check, const Node& node, std::vector<Answer>& out) {
  if (const std::string* const why = unseen_by(node, check)) {
    if (is_of_disk(node, *why)) return;
    out.push_back({&check, {Level::kUnknown, cat("unreadable: ", *why)}});
    return;
  }
  if (check.applies != nullptr && !check.applies(node)) return;
  Findings findings = check.run(node);
  std::erase_if(findings, [&node](const Finding& one) { return !is_about_asked(node, one); });
  if (findings.empty()) findings.push_back({Level::kOk, check.fine});
  for (Finding& one : findings) out.push_back({&check, std::move(one)});
}

std::vector<Answer> answers_on(const Node& node) {
  std::vector<Answer> out;
  for (const Check& check : all_checks()) run(check, node, out);
  if (node.cluster != nullptr) {
    for (const Check& check : kubernetes::all_checks()) run(check, node, out);
  }
  if (!node.peers.empty()) {
    for (const Check& check : peer_checks()) run(check, node, out);
  }
  return out;
}

std::size_t count(const std::vector<Answer>& answers, Level level) {
  return static_cast<std::size_t>(std::ranges::count_if(
      answers, [level](const Answer& one) { return one.finding.level == level; }));
}

// The order is that of Level.
constexpr PaintedWord kLevels[] = {{"ok", Colour::kGreen},
                                   {"note", Colour::kDim},
                                   {"unknown", Colour::kYellow},
                                   {"warning", Colour::kYellow},
                                   {"error", Colour::kRed}};

const PaintedWord& word_for(Level level) { return kLevels[static_cast<std::size_t>(level)]; }

void print(const Answer& answer, const Output& output) {
  constexpr std::size_t kWidth = 9;
  const auto& [check, finding] = answer;
  const auto& [word, colour] = word_for(finding.level);
  const std::string blanks(kWidth, ' ');
  const auto text = [&](const std::string& one) { return folded(one, kWidth, output.width); };
  output.out << output.painted(colour, word) << std::string(kWidth - word.size(), ' ')
             << text(cat(check->name, ": ", finding.what)) << '\n';
  for (const std::string& line : finding.lines) output.out << blanks << "  " << text(line) << '\n';
  if (!finding.why.empty()) output.out << blanks << text(cat("why: ", finding.why)) << '\n';
  if (!finding.remedy.empty()) {
    output.out << blanks << "remedy: " << output.painted(Colour::kBold, finding.remedy) << '\n';
  }
}

// "ok", "1 error, 2 warnings".
Cell verdict_of(const std::vector<Answer>& answers) {
  std::vector<std::string> texts;
  Level worst = Level::kOk;
  for (const auto& [level, noun] : {std::pair(Level::kError, "error"),
                                    {Level::kWarning, "warning"},
                                    {Level::kUnknown, "unknown"}}) {
    const std::size_t found = count(answers, level);
    if (found == 0) continue;
    texts.push_back(level == Level::kUnknown ? cat(found, " unknown") : counted(found, noun));
    worst = std::max(worst, level);
  }
  return {texts.empty() ? "ok" : joined(texts), word_for(worst).colour};
}

// A line for each part that has anything to check.
void print_summary(const Node& node, const std::vector<Answer>& answers, const Output& output) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& [part, name, looked_at] : all_parts()) {
    std::vector<Answer> mine = answers;
    std::erase_if(mine, [wanted = part](const Answer& one) { return one.check->part != wanted; });
    if (mine.empty()) continue;
    rows.push_back({{name}, verdict_of(mine), {looked_at(node)}});
  }
  print_table(output, rows);
}

ordered_json json_of(const std::vector<Answer>& answers) {
  ordered_json out = ordered_json::array();
  for (const auto& [check, finding] : answers) {
    ordered_json one{{"level", str(finding.level)}, {"check", check->name}, {"what", finding.what}};
    if (!finding.lines.empty()) one["lines"] = finding.lines;
    if (!finding.why.empty()) one["why"] = finding.why;
    if (!finding.remedy.empty()) one["remedy"] = finding.remedy;
    out.push_back(std::move(one));
  }
  return out;
}

// "eth0 (net), net1 (back)": the interfaces of the pod, each with its pod's name if several have
// it.
Names interfaces_asked(const Node& node) {
  std::set<std::string> pods;
  for (const AttachmentState& one : node.attachments) {
    if (node.which.has(one.key)) pods.insert(one.pod);
  }
  Names out;
  for (const AttachmentState& one : node.attachments) {
    if (!node.which.has(one.key)) continue;
    const std::string pod = pods.size() > 1 ? cat(one.pod, " ") : "";
    out.push_back(cat(pod, one.key.ifname, " (", one.key.network, ")"));
  }
  return out;
}

}  // namespace

std::string_view str(Level level) { return word_for(level).text; }

namespace {

// What is not looked at, where nothing was sent.
void print_unseen(const Node& node, const Output& output) {
  if (node.probed != nullptr) return;
  output.out << folded("not looked at: whether packets arrive; `cnitool doctor --probe` sends them",
                       0, output.width)
             << '\n';
}

}  // namespace

bool report(const Node& node, const Output& output) {
  const auto answers = answers_on(node);
  const auto errors = count(answers, Level::kError);
  const auto warnings = count(answers, Level::kWarning);
  if (output.json) {
    output.print({{"ok", errors == 0},
                  {"errors", errors},
                  {"warnings", warnings},
                  {"probed", node.probed != nullptr},
                  {"findings", json_of(answers)}});
    return errors == 0;
  }
  for (const Answer& one : answers) {
    if (one.finding.level != Level::kOk) print(one, output);
  }
  if (output.quiet) return errors == 0;
  if (!node.is_of_one_pod()) {
    print_summary(node, answers, output);
  } else if (errors + warnings + count(answers, Level::kUnknown) == 0) {
    output.out << "no problem found: " << joined(interfaces_asked(node)) << '\n';
    print_unseen(node, output);
    return true;
  }
  output.out << counted(errors, "error") << ", " << counted(warnings, "warning") << '\n';
  print_unseen(node, output);
  return errors == 0;
}

bool diagnose(const Settings& settings, const Question& question, const cni::Env& env,
              const Output& output) {
  const Scope& scope = question.scope;
  std::shared_ptr<kubernetes::Cluster> cluster;
  if (scope.kubernetes) {
    cluster = std::make_shared<kubernetes::Cluster>();
    if (!scope.node_json.empty()) {
      cluster->object = node_object(input_from(scope.node_json), source_of(scope.node_json));
    }
    kubernetes::look_at_runtime(*cluster);
  }
  std::vector<Peer> peers;
  if (!scope.nodes.empty()) peers = look_at_peers(scope.nodes);
  Steps steps;
  const Waiting waiting("doctor", &steps);
  Node node = look_at_node(settings, question.which, env, steps);
  if (cluster != nullptr) kubernetes::look_at_cluster(*cluster, node);
  node.cluster = cluster;
  node.peers = std::move(peers);
  if (scope.probe) {
    node.probed = std::make_shared<probe::Outcome>(probe_pods(settings, question.probing));
  }
  return report(node, output);
}

}  // namespace tool::doctor

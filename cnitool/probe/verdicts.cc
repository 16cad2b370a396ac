#include "cnitool/probe/verdicts.h"

#include <algorithm>
#include <iterator>

namespace tool::probe {

namespace {

using doctor::Finding;
using doctor::Findings;
using doctor::Level;

// Of a host that may answer nobody, silence alone is no finding.
bool counts(const Question& question, const Failure& failure) {
  return question.must_answer || failure.cause.has_value() ||
         (question.about == About::kGateway && failure.answer.kind != Answer::Kind::kReply);
}

bool is_vague(const Failure& one) { return !one.cause || one.cause->is_vague; }

std::string what_of(const std::string& what, const std::string& whose) {
  return whose.empty() ? what : cat(what, " (", whose, ")");
}

void add_once(doctor::Names& all, const std::string& one) {
  if (std::ranges::find(all, one) == all.end()) all.push_back(one);
}

}  // namespace

std::vector<Verdicts::End> Verdicts::ends_of(const Question& question) {
  const netlink::Family family = question.packet.target.family();
  std::vector<End> out{{question.subject, family}};
  if (question.sender && *question.sender != question.subject) {
    out.emplace_back(*question.sender, family);
  }
  return out;
}

// Pods of two networks need one for each. What a person does is no command, and is said once.
std::string Verdicts::remedy_of(const Entry& entry) {
  std::string out;
  for (const std::string& one : entry.remedies) {
    if (one.starts_with("restart ")) return one;
    out += cat(out.empty() ? "" : "; ", one);
  }
  return out;
}

bool Verdicts::is_beyond(const Question& question) const {
  if (question.about == About::kSize) return !facts_.has(question.packet.target);
  constexpr About kBeyond[] = {About::kWayOut, About::kNameServer, About::kAsked, About::kOutside};
  return std::ranges::find(kBeyond, question.about) != std::end(kBeyond);
}

void Verdicts::add(const std::vector<Question>& questions, const Answers& answers, Outcome& out) {
  const std::size_t first = out.questions.size();
  for (std::size_t i = 0; i < questions.size(); ++i) {
    out.questions.push_back({.pod = subjects_[questions[i].subject].key,
                             .is_beyond = is_beyond(questions[i]),
                             .text = questions[i].text,
                             .answer = answers.all[i].str()});
  }
  for (const Failure& one : answers.failures) {
    const Question& question = questions[one.question];
    Asked& asked = out.questions[first + one.question];
    asked.level = counts(question, one) ? Level::kError : Level::kUnknown;
    if (asked.level == Level::kError) failed_.push_back({question, one, first + one.question});
  }
}

void Verdicts::blame(const Failed& one, Causes::value_type& cause, Outcome& out) const {
  Entry& entry = cause.second;
  entry.lines.push_back(cat(one.question.text, ": ", one.failure.answer.str(),
                            one.failure.where.empty() ? "" : "; ", one.failure.where));
  add_once(entry.networks, subjects_[one.question.subject].key.network);
  out.questions[one.asked].cause = what_of(cause.first.first, cause.first.second);
}

// The one that concerns most of its pods; null: none does.
Verdicts::Causes::value_type* Verdicts::explaining(const Failed& one) {
  Causes::value_type* out = nullptr;
  std::size_t most = 0;
  const std::vector<End> ends = ends_of(one.question);
  for (auto& cause : causes_) {
    const auto shared = static_cast<std::size_t>(std::ranges::count_if(
        ends, [&](const End& end) { return cause.second.ends.contains(end); }));
    if (shared <= most) continue;
    most = shared;
    out = &cause;
  }
  return out;
}

bool Verdicts::has_cause(const End& end) const {
  return std::ranges::any_of(failed_, [&](const Failed& one) {
    const std::vector<End> ends = ends_of(one.question);
    return !is_vague(one.failure) && std::ranges::find(ends, end) != ends.end();
  });
}

Verdicts::Causes::value_type& Verdicts::cause_of(const Failed& one) {
  const Cause cause =
      one.failure.cause.value_or(Cause{"no cause was seen on the node", "", "cnitool doctor"});
  auto& out = *causes_.try_emplace({cause.what, cause.whose}).first;
  if (!cause.remedy.empty()) add_once(out.second.remedies, cause.remedy);
  return out;
}

void Verdicts::add_known(const Known& known) {
  const Finding& finding = known.finding;
  Entry& entry = causes_[{finding.what, ""}];
  entry.ends.insert(known.ends.begin(), known.ends.end());
  if (!finding.remedy.empty()) add_once(entry.remedies, finding.remedy);
  for (const std::string& one : finding.networks) add_once(entry.networks, one);
  for (const std::string& one : finding.lines) add_once(entry.lines, one);
  entry.why = finding.why;
}

Findings Verdicts::findings(const std::vector<Known>& known, Outcome& out) {
  for (const Failed& one : failed_) {
    if (is_vague(one.failure)) continue;
    auto& cause = cause_of(one);
    blame(one, cause, out);
    for (const End& end : ends_of(one.question)) cause.second.ends.insert(end);
  }
  for (const Known& one : known) add_known(one);
  for (const Failed& one : failed_) {
    if (!is_vague(one.failure)) continue;
    auto* const cause = explaining(one);
    blame(one, cause != nullptr ? *cause : cause_of(one), out);
  }
  Findings all;
  for (const auto& [cause, entry] : causes_) {
    all.push_back({.level = Level::kError,
                   .what = what_of(cause.first, cause.second),
                   .why = entry.why.empty() ? cat(counted(entry.lines.size(), "probe"), " failed")
                                            : entry.why,
                   .remedy = remedy_of(entry),
                   .networks = entry.networks,
                   .lines = entry.lines});
  }
  return all;
}

}  // namespace tool::probe

#include "cnitool/probe/probe.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "cnitool/cached.h"
#include "cnitool/probe/arp.h"
#include "cnitool/probe/asked.h"
#include "cnitool/probe/run.h"
#include "cnitool/probe/scene.h"
#include "cnitool/probe/segment.h"
#include "cnitool/probe/ways_out.h"
#include "libcni/common/error.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using doctor::Finding;
using doctor::Findings;
using doctor::Level;
using netlink::NetNs;

// How many pods are asked about at once: as files may be open, up to what the process may have
// without asking anybody.
std::size_t pods_at_once() {
  constexpr rlim_t kMost = 128, kFilesOfPod = 12, kOthers = 60;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t files = std::max(limit.rlim_cur, kOthers) - kOthers;
  return std::clamp<rlim_t>(files / kFilesOfPod, 1, kMost);
}

/// The pods that live, and which of them are asked about.
struct Pods {
  std::vector<Subject> subjects;
  std::vector<bool> asked;
};

bool lives(const Subject& one) {
  const auto ns = NetNs::find(one.netns);
  return ns && netlink::RouteSocket(*ns).find(one.key.ifname);
}

// The pods of these questions that have ended.
std::set<std::size_t> gone_of(const std::vector<Question>& questions,
                              const std::vector<Subject>& subjects) {
  std::set<std::size_t> out;
  for (const Question& one : questions) out.insert({one.subject, one.sender.value_or(one.subject)});
  std::erase_if(out, [&](std::size_t pod) { return lives(subjects[pod]); });
  return out;
}

bool is_about(const Question& one, const std::set<std::size_t>& pods) {
  return pods.contains(one.subject) || (one.sender && pods.contains(*one.sender));
}

using Clock = std::chrono::steady_clock;

/// Pods that live, and have lost the interface that their results have.
struct BarePods {
  Clock::time_point seen = Clock::now();
  std::map<cni::AttachmentKey, Subject> pods = {};
};

BarePods bare_pods(const Settings& settings, const Options& options) {
  BarePods out;
  const cni::Cache cache(settings.cache_dir);
  Selection which = options.which;
  if (!options.pod.empty()) which.containers = containers_named(options.pod, cache);
  for (const cni::CachedAttachment& one : sorted_entries(cache)) {
    if (one.netns.empty() || one.result->is_null() || !which.has(one.key)) continue;
    Subject subject = subject_of(one);
    if (mac_of(subject) && NetNs::find(one.netns) && !lives(subject)) {
      out.pods.emplace(one.key, std::move(subject));
    }
  }
  return out;
}

// Of a pod that ends, too, the interface goes first: what is said is true for a second.
void add_bare_pods(const Settings& settings, const Options& options, const BarePods& before,
                   Findings& out) {
  if (before.pods.empty()) return;
  std::this_thread::sleep_until(before.seen + std::chrono::seconds(1));
  for (const auto& [key, one] : bare_pods(settings, options).pods) {
    if (!before.pods.contains(key)) continue;
    out.push_back({.level = Level::kError,
                   .what = cat(prefix_of(&one), "'", printable(key.ifname), "' does not exist"),
                   .why = "the pod has no way to any host by this network",
                   .remedy = restart_of(one),
                   .networks = {key.network}});
  }
}

Pods living_pods(const Settings& settings, const Options& options) {
  Pods out;
  Selection which = options.which;
  const cni::Cache cache(settings.cache_dir);
  if (!options.pod.empty()) which.containers = containers_named(options.pod, cache);
  for (const cni::CachedAttachment& one : sorted_entries(cache)) {
    if (one.netns.empty() || one.result->is_null()) continue;
    const auto ns = NetNs::find(one.netns);
    const auto link = ns ? netlink::RouteSocket(*ns).find(one.key.ifname) : std::nullopt;
    if (!link) continue;
    out.subjects.push_back(subject_of(one));
    out.subjects.back().mtu = link->mtu;
    out.asked.push_back(which.has(one.key));
  }
  const bool is_named = !which.containers.empty();
  if (is_named && options.is_alive && std::ranges::find(out.asked, true) == out.asked.end()) {
    const std::string name = options.pod.empty() ? *which.containers.begin() : options.pod;
    throw cni::Error(cni::Code::kUnknownContainer,
                     cat("probe pod '", printable(name), "': it has ended, and has no interface"),
                     "`cnitool list` prints the state of all attachments");
  }
  return out;
}

[[noreturn]] void refuse_target(const std::string& text, const std::string& why,
                                const std::string& hint) {
  throw cni::Error(cni::Code::kUnknownContainer, cat("probe --to '", printable(text), "': ", why),
                   hint);
}

std::vector<Question> plan_to(const Pods& pods, const Settings& settings, const Options& options) {
  const Choice choice{pods.subjects, pods.asked};
  const Target target = target_of(options.to).value_or(Target{});
  if (target.kind == Target::Kind::kAddress) return questions_to(choice, target);
  std::vector<Question> out;
  if (target.kind == Target::Kind::kNameServers) {
    out = questions_to_name_servers(choice);
    if (out.empty() && !pods.subjects.empty()) {
      refuse_target(options.to, "the results of these pods name no name server",
                    "--to ADDRESS:53/udp asks one, such as that of /etc/resolv.conf in the pod");
    }
    return out;
  }
  const auto containers = containers_named(target.pod, cni::Cache(settings.cache_dir));
  const bool lives = std::ranges::any_of(
      pods.subjects, [&](const Subject& one) { return containers.contains(one.key.container_id); });
  if (!lives) {
    refuse_target(options.to, "it has ended, and has no interface",
                  "`cnitool list` prints the state of all attachments");
  }
  out = questions_to_pod(choice, target, containers);
  if (out.empty()) {
    refuse_target(options.to, "no pod that is asked about has a way to it",
                  "pods reach those of their network, and of networks that the node routes");
  }
  return out;
}

std::vector<Question> plan_from(const Pods& pods, const NodeFacts& facts, const Ip& source) {
  const auto has_source = [&](const Subject& one) {
    return address_of(one, source.family()) == source;
  };
  if (facts.has(source) || std::ranges::any_of(pods.subjects, has_source)) {
    throw cni::Error(cni::Code::kInvalidEnvironment,
                     cat("probe --from '", source.str(), "': is an address of the node or a pod"),
                     "--from takes a host beyond the node");
  }
  return questions_from({pods.subjects, pods.asked}, facts, source);
}

std::vector<Question> plan(const Pods& pods, const NodeFacts& facts, const Settings& settings,
                           const Options& options) {
  if (!options.from.empty()) {
    return plan_from(pods, facts, Ip::parse(options.from).value_or(Ip{}));
  }
  if (!options.to.empty()) return plan_to(pods, settings, options);
  return questions_of(pods.subjects, pods.asked, facts);
}

// Of a host that may answer nobody, silence alone is no finding.
bool counts(const Question& question, const Failure& failure) {
  return question.must_answer || failure.cause.has_value() ||
         (question.about == About::kGateway && failure.answer.kind != Answer::Kind::kReply);
}

/// Causes, each with the questions that fail by it.
class Verdicts {
 public:
  /// Both outlive it.
  Verdicts(const std::vector<Subject>& subjects, const NodeFacts& facts)
      : subjects_(subjects), facts_(facts) {}

  void add(const std::vector<Question>& questions, const Answers& answers, Outcome& out) {
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
      if (asked.level == Level::kError) asked.cause = blame(question, one);
    }
  }
  Findings findings() const {
    Findings out;
    for (const auto& [cause, entry] : causes_) {
      out.push_back({.level = Level::kError,
                     .what = what_of(cause.first, cause.second),
                     .why = cat(counted(entry.lines.size(), "probe"), " failed"),
                     .remedy = remedy_of(entry),
                     .networks = entry.networks,
                     .lines = entry.lines});
    }
    return out;
  }

 private:
  struct Entry {
    doctor::Names networks, lines, remedies;
  };
  // Pods of two networks need one for each. What a person does is no command, and is said once.
  static std::string remedy_of(const Entry& entry) {
    std::string out;
    for (const std::string& one : entry.remedies) {
      if (one.starts_with("restart ")) return one;
      out += cat(out.empty() ? "" : "; ", one);
    }
    return out;
  }
  // \return the cause, as the finding has it.
  std::string blame(const Question& question, const Failure& failure) {
    const Cause cause =
        failure.cause.value_or(Cause{"no cause was seen on the node", "", "cnitool doctor"});
    Entry& entry = causes_[{cause.what, cause.whose}];
    const auto add_once = [](doctor::Names& all, const std::string& one) {
      if (std::ranges::find(all, one) == all.end()) all.push_back(one);
    };
    if (!cause.remedy.empty()) add_once(entry.remedies, cause.remedy);
    entry.lines.push_back(cat(question.text, ": ", failure.answer.str(),
                              failure.where.empty() ? "" : "; ", failure.where));
    add_once(entry.networks, subjects_[question.subject].key.network);
    return what_of(cause.what, cause.whose);
  }
  bool is_beyond(const Question& question) const {
    if (question.about == About::kSize) return !facts_.has(question.packet.target);
    constexpr About kBeyond[] = {About::kWayOut, About::kNameServer, About::kAsked,
                                 About::kOutside};
    return std::ranges::find(kBeyond, question.about) != std::end(kBeyond);
  }
  static std::string what_of(const std::string& what, const std::string& whose) {
    return whose.empty() ? what : cat(what, " (", whose, ")");
  }
  const std::vector<Subject>& subjects_;
  const NodeFacts& facts_;
  /// What it is, and whose.
  std::map<std::pair<std::string, std::string>, Entry> causes_;
};

// Others may know the pod, or let it pass, by the MAC address of its result.
Finding finding_of_mac(const Duplicate& one) {
  return {
      .level = Level::kError,
      .what = cat("'", printable(one.ifname), "' of ", one.whose, " has the MAC address ",
                  one.own->str(), " instead of ", one.expected.str(), ", which its result says"),
      .why = "rules and neighbours that know the other one do not let it pass",
      .remedy = cat("nsenter --net=", doctor::quoted(one.netns), " ip link set ",
                    doctor::quoted(one.ifname), " address ", one.expected.str()),
      .networks = {one.network}};
}

Finding finding_of(const Duplicate& one) {
  if (one.own) return finding_of_mac(one);
  doctor::Names macs;
  for (const netlink::Mac& mac : one.others) macs.push_back(mac.str());
  return {.level = Level::kError,
          .what = cat("address ", one.ip.str(), " of ", one.whose, " in network '",
                      printable(one.network), "': another host has it, too: ", joined(macs)),
          .why = "packets to it arrive at one of them, and at the other a moment later",
          .remedy = cat("cnitool list --address ", one.ip.str(),
                        "  # its pod; the host with the other MAC address needs another address"),
          .networks = {one.network}};
}

std::vector<std::vector<Question>> groups_of(const std::vector<Question>& questions) {
  constexpr std::size_t kMostQuestions = 20'000;  // each has a port of Mark's
  const std::size_t most = pods_at_once();
  std::vector<std::vector<Question>> out;
  std::set<std::size_t> pods;
  for (const Question& one : questions) {
    const std::set<std::size_t> of_one{one.subject, one.sender.value_or(one.subject)};
    pods.insert(of_one.begin(), of_one.end());
    if (out.empty() || pods.size() > most || out.back().size() == kMostQuestions) {
      out.emplace_back();
      pods = of_one;
    }
    out.back().push_back(one);
  }
  return out;
}

// The next pod may have the address of one that ended in between.
std::vector<Duplicate> living_duplicates(Pods pods, const NodeFacts& facts) {
  const auto is_alive = [&](std::size_t i) { return pods.asked[i] && lives(pods.subjects[i]); };
  for (std::size_t i = 0; i < pods.asked.size(); ++i) pods.asked[i] = is_alive(i);
  auto out = duplicates(pods.subjects, pods.asked, facts);
  std::erase_if(out, [&](const Duplicate& one) {
    return std::ranges::any_of(
        pods.subjects, [&](const Subject& pod) { return pod.name == one.whose && !lives(pod); });
  });
  return out;
}

// A pod may end in between: then nothing is said of it.
std::optional<Answers> ask_living(Run& run, const std::vector<Subject>& subjects,
                                  std::vector<Question>& questions) {
  for (;;) {
    const auto before = gone_of(questions, subjects);
    std::erase_if(questions, [&](const Question& one) { return is_about(one, before); });
    try {
      auto out = run.ask(questions);
      const auto after = out ? gone_of(questions, subjects) : before;
      if (out) {
        std::erase_if(out->failures,
                      [&](const Failure& one) { return is_about(questions[one.question], after); });
      }
      return out;
    } catch (const netlink::Error&) {
      if (gone_of(questions, subjects).empty()) throw;
    }
  }
}

}  // namespace

std::size_t Outcome::count(Level level) const {
  return static_cast<std::size_t>(std::ranges::count(questions, level, &Asked::level));
}

std::vector<Question> plan(const Settings& settings, const Options& options) {
  return plan(living_pods(settings, options), look_at_node(), settings, options);
}

Outcome probe(const Settings& settings, const Options& options) {
  const auto end = Clock::now() + std::chrono::seconds(options.limit);
  Pods pods = living_pods(settings, options);
  const BarePods bare = bare_pods(settings, options);
  const NodeFacts facts = look_at_node();
  Outcome out;
  Verdicts verdicts(pods.subjects, facts);
  Run run(pods.subjects, facts, {.per_second = options.per_second, .end = end}, options.stop_fd);
  for (auto& questions : groups_of(plan(pods, facts, settings, options))) {
    const auto answers = ask_living(run, pods.subjects, questions);
    if (!answers) {
      out.is_whole = false;
      break;
    }
    verdicts.add(questions, *answers, out);
  }
  out.findings = verdicts.findings();
  out.limits = run.limits();
  for (auto& one : lost_ways_out(pods.subjects, pods.asked, facts)) {
    out.findings.push_back(std::move(one));
  }
  if (!out.is_whole || !options.to.empty() || !options.from.empty()) return out;
  if (out.findings.empty()) {  // else that is a cause among these
    out.findings = silent_gateways(pods.subjects, pods.asked, facts);
  }
  std::set<std::string> said;  // a pod has its MAC address once, for all of its addresses
  for (const Duplicate& one : living_duplicates(pods, facts)) {
    Finding finding = finding_of(one);
    if (said.insert(finding.what).second) out.findings.push_back(std::move(finding));
  }
  add_bare_pods(settings, options, bare, out.findings);
  return out;
}

}  // namespace tool::probe

#include "cnitool/probe/probe.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "cnitool/cached.h"
#include "cnitool/probe/arp.h"
#include "cnitool/probe/asked.h"
#include "cnitool/probe/pod_routes.h"
#include "cnitool/probe/run.h"
#include "cnitool/probe/scene.h"
#include "cnitool/probe/segment.h"
#include "cnitool/probe/unseen.h"
#include "cnitool/probe/verdicts.h"
#include "cnitool/probe/ways_out.h"
#include "libcni/common/error.h"
#include "netlink/types/capability.h"
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

// Before any packet: without them what packets leave cannot be removed.
void require_capabilities() {
  using netlink::Capability;
  const std::string missing =
      netlink::missing_of({Capability::kNetAdmin, Capability::kNetRaw, Capability::kSysAdmin});
  if (missing.empty()) return;
  throw netlink::Error(cni::cat("probe pods (this needs ", missing, ")"), EPERM);
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
    auto link = ns ? netlink::RouteSocket(*ns).find(one.key.ifname) : std::nullopt;
    if (!link) continue;
    out.subjects.push_back(subject_of(one));
    out.subjects.back().link = *std::move(link);
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

// Of failures of those pods it is the reason.
std::vector<Verdicts::Known> known_of(const std::vector<Duplicate>& duplicates,
                                      const std::vector<Subject>& subjects) {
  std::vector<Verdicts::Known> out;
  for (const Duplicate& one : duplicates) {
    Verdicts::Known known{finding_of(one), {}};
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      const auto mac = mac_of(subjects[i]);
      const bool is_owner = subjects[i].name == one.whose && subjects[i].key.network == one.network;
      const bool is_other = mac && std::ranges::find(one.others, *mac) != one.others.end();
      if (!is_owner && !is_other) continue;
      for (const netlink::Family family : netlink::kFamilies) {
        if (one.own || family == one.ip.family()) known.ends.emplace_back(i, family);
      }
    }
    out.push_back(std::move(known));
  }
  return out;
}

// Pods of one rank in their networks ask each other: side by side, few namespaces are opened twice.
void sort_by_rank(std::vector<Question>& questions, const std::vector<Subject>& subjects) {
  std::map<std::string, std::size_t> counts;
  std::vector<std::size_t> ranks;
  for (const Subject& one : subjects) ranks.push_back(counts[one.key.network]++);
  std::ranges::stable_sort(
      questions, {}, [&](const Question& one) { return ranks[one.sender.value_or(one.subject)]; });
}

std::vector<std::vector<Question>> groups_of(std::vector<Question> questions,
                                             const std::vector<Subject>& subjects) {
  constexpr std::size_t kMostQuestions = 20'000;  // each has a port of Mark's
  const std::size_t most = pods_at_once();
  std::vector<std::vector<Question>> out;
  std::set<std::size_t> pods;
  if (subjects.size() > most) sort_by_rank(questions, subjects);
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
std::vector<Duplicate> living_duplicates(Pods pods, const NodeFacts& facts, Pacer& pacer) {
  const auto is_alive = [&](std::size_t i) { return pods.asked[i] && lives(pods.subjects[i]); };
  for (std::size_t i = 0; i < pods.asked.size(); ++i) pods.asked[i] = is_alive(i);
  auto out = duplicates(pods.subjects, pods.asked, facts, pacer);
  std::erase_if(out, [&](const Duplicate& one) {
    return std::ranges::any_of(
        pods.subjects, [&](const Subject& pod) { return pod.name == one.whose && !lives(pod); });
  });
  return out;
}

void add_lost_ways(const Pods& pods, const NodeFacts& facts, bool with_notes, Outcome& out) {
  for (auto& one : lost_ways_out(pods.subjects, pods.asked, facts)) {
    if (one.level != Level::kNote) {
      out.findings.push_back(std::move(one));
    } else if (with_notes) {
      out.limits.push_back(one.what);
    }
  }
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

void add_unseen(const Pods& pods, const NodeFacts& facts, Outcome& out) {
  const auto add = [&](const std::vector<std::string>& more) {
    out.limits.insert(out.limits.end(), more.begin(), more.end());
  };
  add(unseen_programs(pods.subjects, pods.asked));
  const bool is_silent = std::ranges::any_of(
      out.questions, [](const Asked& one) { return one.is_beyond && one.level != Level::kOk; });
  if (is_silent) add(unseen_drivers(facts));
}

}  // namespace

std::size_t Outcome::count(Level level) const {
  return static_cast<std::size_t>(std::ranges::count(questions, level, &Asked::level));
}

std::vector<Question> plan(const Settings& settings, const Options& options) {
  return plan(living_pods(settings, options), look_at_node(), settings, options);
}

Outcome probe(const Settings& settings, const Options& options) {
  require_capabilities();
  const auto end = Clock::now() + std::chrono::seconds(options.limit);
  Pods pods = living_pods(settings, options);
  const BarePods bare = bare_pods(settings, options);
  const NodeFacts facts = look_at_node();
  Outcome out;
  Verdicts verdicts(pods.subjects, facts);
  const Pace pace{.per_second = options.per_second, .end = end};
  Run run(pods.subjects, facts, pace, options.stop_fd);
  for (auto& questions : groups_of(plan(pods, facts, settings, options), pods.subjects)) {
    const auto answers = ask_living(run, pods.subjects, questions);
    if (!answers) {
      out.is_whole = false;
      break;
    }
    verdicts.add(questions, *answers, out);
  }
  out.limits = run.limits();
  add_unseen(pods, facts, out);
  const bool is_all = out.is_whole && options.to.empty() && options.from.empty();
  std::vector<Verdicts::Known> known;
  Pacer pacer(pace, options.stop_fd);
  if (is_all) {
    known = known_of(living_duplicates(pods, facts, pacer), pods.subjects);
    add_strayed_routes(pods.subjects, pods.asked, verdicts, known);
  }
  out.findings = verdicts.findings(known, out);
  add_lost_ways(pods, facts, is_all, out);
  if (!is_all) return out;
  if (out.findings.empty()) {  // else that is a cause among these
    out.findings = silent_gateways(pods.subjects, pods.asked, facts, pacer);
    for (auto& one : silent_ways_out(pods.subjects, pods.asked)) {
      out.findings.push_back(std::move(one));
    }
  }
  out.is_whole = !pacer.is_over();
  add_bare_pods(settings, options, bare, out.findings);
  return out;
}

}  // namespace tool::probe

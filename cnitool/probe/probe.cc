#include "cnitool/probe/probe.h"

#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/cached.h"
#include "cnitool/probe/run.h"
#include "cnitool/probe/segment.h"
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

struct Target {
  Ip ip;
  std::uint16_t port = 0;  ///< 0: an echo
};

// "10.0.0.1", "10.0.0.1:80", "fd00::1", "[fd00::1]:80".
std::optional<Target> target_of(const std::string& text) {
  if (const auto ip = Ip::parse(text)) return Target{*ip};
  const auto colon = text.rfind(':');
  std::string address = text.substr(0, colon == std::string::npos ? 0 : colon);
  if (address.starts_with('[') && address.ends_with(']')) {
    address = address.substr(1, address.size() - 2);
  } else if (address.find(':') != std::string::npos) {  // "fd00::1:80" is an address, too
    return std::nullopt;
  }
  const auto ip = Ip::parse(address);
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool is_number = !port.empty() && port.size() <= 5 &&
                         port.find_first_not_of("0123456789") == std::string::npos;
  const unsigned long number = is_number ? std::stoul(port) : 0;
  if (!ip || number == 0 || number > 65535) return std::nullopt;
  return Target{*ip, static_cast<std::uint16_t>(number)};
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

Pods living_pods(const Settings& settings, const Selection& which) {
  Pods out;
  for (const cni::CachedAttachment& one : sorted_entries(cni::Cache(settings.cache_dir))) {
    if (one.netns.empty() || one.result->is_null()) continue;
    const auto ns = NetNs::find(one.netns);
    const auto link = ns ? netlink::RouteSocket(*ns).find(one.key.ifname) : std::nullopt;
    if (!link) continue;
    out.subjects.push_back(subject_of(one));
    out.subjects.back().mtu = link->mtu;
    out.asked.push_back(which.has(one.key));
  }
  return out;
}

std::vector<Question> plan(const Pods& pods, const Options& options, const NodeFacts& facts) {
  if (options.to.empty()) return questions_of(pods.subjects, pods.asked, facts);
  const Target target = target_of(options.to).value_or(Target{});
  return questions_to(pods.subjects, pods.asked, target.ip, target.port);
}

/// Causes, each with the questions that fail by it.
class Verdicts {
 public:
  void add(const Question& question, const Subject& subject, const Failure& failure) {
    const Cause cause =
        failure.cause.value_or(Cause{"no cause was seen on the node", "", "cnitool doctor"});
    Entry& entry = causes_[cause];
    entry.is_known |= failure.cause.has_value();
    entry.lines.push_back(cat(question.text, ": ", failure.answer.str()));
    if (std::ranges::find(entry.networks, subject.key.network) == entry.networks.end()) {
      entry.networks.push_back(subject.key.network);
    }
  }
  Findings findings() const {
    Findings out;
    for (const auto& [cause, entry] : causes_) {
      out.push_back(
          {.level = Level::kError,
           .what = cause.whose.empty() ? cause.what : cat(cause.what, " (", cause.whose, ")"),
           .why = cat(counted(entry.lines.size(), "probe"), " failed"),
           .remedy = cause.remedy,
           .networks = entry.networks,
           .lines = entry.lines});
    }
    return out;
  }

 private:
  struct Entry {
    bool is_known = false;
    doctor::Names networks, lines;
  };
  std::map<Cause, Entry> causes_;
};

Finding finding_of(const Duplicate& one) {
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

// Of a host that may answer nobody, silence alone is no finding.
bool counts(const Question& question, const Failure& failure) {
  return question.must_answer || failure.cause.has_value() ||
         (question.about == About::kGateway && failure.answer.kind != Answer::Kind::kReply);
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

nlohmann::ordered_json json_of(const Findings& findings) {
  auto out = nlohmann::ordered_json::array();
  for (const Finding& one : findings) {
    out.push_back({{"level", doctor::str(one.level)},
                   {"what", one.what},
                   {"lines", one.lines},
                   {"why", one.why},
                   {"remedy", one.remedy}});
  }
  return out;
}

void print_plan(const std::vector<Question>& questions, const Output& output) {
  auto all = nlohmann::ordered_json::array();
  for (const Question& one : questions) {
    if (output.json) {
      all.push_back({{"packet", one.packet.str()}, {"question", one.text}});
    } else {
      output.out << one.packet.str() << ": " << one.text << '\n';
    }
  }
  if (output.json) output.print({{"probes", all}});
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
    if (!one.remedy.empty()) output.out << "  remedy: " << one.remedy << '\n';
  }
}

// A pod may end in between: then nothing is said of it.
std::optional<std::vector<Failure>> ask_living(Run& run, const std::vector<Subject>& subjects,
                                               std::vector<Question>& questions) {
  for (;;) {
    const auto before = gone_of(questions, subjects);
    std::erase_if(questions, [&](const Question& one) { return is_about(one, before); });
    try {
      auto out = run.ask(questions);
      const auto after = out ? gone_of(questions, subjects) : before;
      if (out) {
        std::erase_if(*out,
                      [&](const Failure& one) { return is_about(questions[one.question], after); });
      }
      return out;
    } catch (const netlink::Error&) {
      if (gone_of(questions, subjects).empty()) throw;
    }
  }
}

}  // namespace

std::string refusal_of_target(const std::string& text) {
  const auto target = target_of(text);
  if (!target) return "expected ADDRESS or ADDRESS:PORT, of IPv6 with a port [ADDRESS]:PORT";
  const Ip& ip = target->ip;
  const bool is_host = !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast() &&
                       ip != *Ip::parse("255.255.255.255");
  return is_host ? "" : "expected the address of another host";
}

Outcome probe(const Settings& settings, const Options& options) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(options.limit);
  Pods pods = living_pods(settings, options.which);
  const NodeFacts facts = look_at_node();
  Outcome out;
  Verdicts verdicts;
  Run run(pods.subjects, facts, {.per_second = options.per_second, .end = end}, options.stop_fd);
  for (auto& questions : groups_of(plan(pods, options, facts))) {
    const auto failures = ask_living(run, pods.subjects, questions);
    if (!failures) {
      out.is_whole = false;
      break;
    }
    out.asked += questions.size();
    out.answered += questions.size() - failures->size();
    for (const Failure& one : *failures) {
      const Question& question = questions[one.question];
      if (!counts(question, one)) {
        ++out.unanswered;
        continue;
      }
      verdicts.add(question, pods.subjects[question.subject], one);
    }
  }
  out.findings = verdicts.findings();
  if (!out.is_whole || !options.to.empty()) return out;
  for (const Duplicate& one : living_duplicates(std::move(pods), facts)) {
    out.findings.push_back(finding_of(one));
  }
  return out;
}

bool report(const Settings& settings, const Options& options, const Output& output) {
  if (options.dry_run) {
    print_plan(plan(living_pods(settings, options.which), options, look_at_node()), output);
    return true;
  }
  const Outcome outcome = probe(settings, options);
  const bool is_fine = outcome.findings.empty() && outcome.is_whole;
  if (output.json) {
    output.print({{"ok", is_fine},
                  {"asked", outcome.asked},
                  {"answered", outcome.answered},
                  {"unanswered", outcome.unanswered},
                  {"complete", outcome.is_whole},
                  {"findings", json_of(outcome.findings)}});
    return is_fine;
  }
  print(outcome.findings, output);
  if (!outcome.is_whole) output.out << "stopped before all was asked\n";
  output.out << counted(outcome.asked, "question") << ", " << outcome.answered << " answered, "
             << counted(outcome.findings.size(), "error") << '\n';
  return is_fine;
}

}  // namespace tool::probe

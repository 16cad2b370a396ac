#include "cnitool/probe/run.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "cnitool/probe/answers.h"
#include "cnitool/probe/cleaner.h"
#include "cnitool/probe/drop_cause.h"
#include "cnitool/probe/leg.h"
#include "cnitool/probe/trackers.h"
#include "libcni/common/error.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using netlink::NetNs;

// Failures of the same cause are followed once each all the same; more than this many say no more.
constexpr std::size_t kMostFollowed = 512;

// After the last packet of a run that was stopped: whoever is asked for a MAC address, or answers,
// makes entries of neighbours until then.
constexpr auto kUnderWay = std::chrono::milliseconds(100);

std::vector<Question> followed(const std::vector<Question>& questions,
                               const std::vector<Failure>& failures) {
  std::vector<Question> out;
  for (const Failure& one : failures) {
    if (out.size() < kMostFollowed) out.push_back(questions[one.question]);
  }
  return out;
}

// A server of UDP may say nothing: it is enough that the packet has passed all rules of its pod, or
// where these are not followed, that it was led there and nobody dropped it.
bool has_arrived(const Case& one, const NodeFacts& facts) {
  if (one.question.packet.kind != Kind::kDatagram) return false;
  const bool is_taken = std::ranges::any_of(one.trail.request_sights, [&](const Sight& each) {
    return each.place == one.subject_place && each.hook == Hook::kTaken;
  });
  return (is_taken && !kept_by_programs(one)) ||
         (!one.is_heard && one.flow && one.trail.drops.empty() && !went_astray(one, facts));
}

// By the second look.
void judge(Case& one, Scene& scene, Failure& out) {
  if (one.answer.kind != Answer::Kind::kNone) out.answer = one.answer;
  if (!one.answer.is_delivered() && has_arrived(one, scene.facts())) {
    out.answer = one.answer = {.kind = Answer::Kind::kArrived};
  }
  out.is_found = leads_elsewhere(one.question, one.answer, scene.facts());
  if (out.is_found) return;
  if (is_of_foreign_router(one.question)) {
    out.is_found = is_found(one.question.packet.target, scene.at(one.sender), scene.arp_end());
  }
  out.cause = cause_of(one, scene);
  out.where = lost_leg(one, scene.facts()).str();
}

// After the second look: what is fine by now is no failure.
void settle(Answers& answers) {
  for (const Failure& one : answers.failures) answers.all[one.question] = one.answer;
  std::erase_if(answers.failures, [](const Failure& one) {
    return !one.cause && (one.answer.is_delivered() || one.is_found);
  });
}

}  // namespace

Run::Run(const std::vector<Subject>& subjects, const NodeFacts& facts, const Pace& pace, int stop)
    : subjects_(subjects),
      facts_(facts),
      pace_(pace),
      stop_(stop),
      are_introduced_(behind_first(subjects)) {}

Run::Group Run::group_of(const std::vector<Question>& questions) const {
  Group out;
  out.places.push_back(NetNs::current());
  for (const Question& one : questions) {
    for (const auto& pod : {one.sender, std::optional(one.subject)}) {
      if (!pod || std::ranges::find(out.pods, *pod) != out.pods.end()) continue;
      out.pods.push_back(*pod);
      out.places.push_back(NetNs::open(subjects_[*pod].netns));
    }
  }
  const auto outer = std::ranges::find(questions, About::kOutside, &Question::about);
  if (outer != questions.end()) {
    const Ip& host = *outer->packet.source;
    out.outside = Subject{.key = {}, .name = host.str(), .netns = "/proc/self/ns/net"};
    out.outside->result.ips.push_back({.cidr = {host, host.bits()}});
  }
  open_senders(out);
  return out;
}

void Run::open_senders(Group& group) const {
  group.senders.clear();
  for (const NetNs& ns : group.places) group.senders.emplace_back(ns, mark_);
  if (group.outside) group.senders.emplace_back(group.outside->result.ips.front().cidr.ip, mark_);
}

Footprint Run::footprint_of(const Group& group) const {
  Footprint out(group.places);
  for (const Ip& router : facts_.routers) out.expect(0, router);
  for (const Guest& one : guests_of(group)) {
    for (const cni::Address& address : one.pod.result.ips) {
      out.expect(one.place, address.cidr.ip);
      if (address.gateway) out.expect(one.place, *address.gateway);
    }
    for (const int link : {one.bridge.index, one.pod.link.peer_index}) out.expect(one.place, link);
  }
  return out;
}

std::vector<Shot> Run::shots_of(const std::vector<Question>& questions, const Group& group) const {
  std::vector<Shot> out;
  for (const Question& one : questions) {
    Shot shot{.packet = one.packet};
    if (one.sender) {
      const auto at = std::ranges::find(group.pods, *one.sender) - group.pods.begin();
      shot.sender = static_cast<std::size_t>(at) + 1;
    } else if (one.about == About::kOutside) {
      shot.sender = group.senders.size() - 1;
    } else {
      shot.packet.source = group.senders[0].source_for(one.packet.target);
    }
    shot.packet.number = static_cast<std::uint16_t>(out.size());
    shot.packet.token = Mark::random().cookie;
    out.push_back(shot);
  }
  return out;
}

const Subject* Run::sender_of(const Question& question, const Group& group) const {
  if (question.about == About::kOutside) return &*group.outside;
  return question.sender ? &subjects_[*question.sender] : nullptr;
}

bool Run::has_failed(const Question& question, const Shot& shot, const Group& group,
                     Footprint& footprint) const {
  if (shot.answer.is_delivered()) {
    const Case one{.question = question,
                   .subject = subjects_[question.subject],
                   .flow = footprint.flow_of(0, shot.packet, mark_)};
    // The kernel forgets a connection that was refused at once: the second look says where it was.
    const bool is_unknown =
        shot.answer.kind == Answer::Kind::kClosed && is_for_pod(question, one.subject);
    return one.flow ? went_astray(one, facts_) : is_unknown;
  }
  if (leads_elsewhere(question, shot.answer, facts_)) return false;
  if (!is_of_foreign_router(question)) return true;
  netlink::RouteSocket sender(group.places[shot.sender]);
  return !is_found(question.packet.target, sender, ArpClock::now());
}

Run::Posts Run::posts_of(const std::vector<Question>& questions, const Group& group) const {
  Posts out;
  netlink::RouteSocket node;
  out.all.push_back({group.places.front(), {}});
  for (const netlink::Family family : netlink::kFamilies) {
    const auto& uplink = facts_.uplink(family);
    if (uplink && out.all[0].links != std::vector{uplink->link}) {
      out.all[0].links.push_back(uplink->link);
    }
  }
  for (const Question& one : questions) {
    for (const std::size_t pod : {one.subject, one.sender.value_or(one.subject)}) {
      if (!out.places.emplace(pod, out.all.size()).second) continue;
      const Subject& subject = subjects_[pod];
      const auto at = std::ranges::find(group.pods, pod) - group.pods.begin();
      const NetNs& ns = group.places[static_cast<std::size_t>(at) + 1];
      out.all.push_back({ns, {subject.key.ifname}});
      const auto inner = netlink::RouteSocket(ns).find(subject.key.ifname);
      const auto outer =
          inner && inner->kind == "veth" ? node.find(inner->peer_index) : std::nullopt;
      if (outer) out.all[0].links.push_back(outer->name);
    }
  }
  return out;
}

std::vector<Ip> Run::addresses_in(const std::vector<Question>& questions) const {
  std::set<Ip> out;
  for (const Question& one : questions) {
    const Subject* const sender = one.sender ? &subjects_[*one.sender] : nullptr;
    for (const Subject* const pod : {&subjects_[one.subject], sender}) {
      if (pod == nullptr) continue;
      for (const cni::Address& address : pod->result.ips) {
        out.insert(address.cidr.ip);
        if (address.gateway) out.insert(*address.gateway);
      }
    }
  }
  return {out.begin(), out.end()};
}

std::optional<Answers> Run::ask(const std::vector<Question>& questions) {
  mark_ = Mark::random();
  Group group = group_of(questions);
  std::vector<Shot> shots = shots_of(questions, group);
  Footprint footprint = footprint_of(group);
  if (const std::string lack = footprint.lacks(); !lack.empty()) {
    add_limit(cni::cat(
        "tracked connections are not seen, and those of probes stay until they expire: the kernel "
        "has no ",
        lack));
  }
  expect(questions, group, shots, footprint);
  footprint.remember();
  const Cleaner cleaner([&] { footprint.restore_for_other(); });
  std::optional<Answers> out;
  try {
    out = ask_group(questions, group, shots, footprint);
  } catch (const std::exception&) {  // a pod that ended
    footprint.restore();
    throw;
  }
  if (!out) std::this_thread::sleep_for(kUnderWay);
  footprint.restore();
  return out;
}

std::optional<Answers> Run::ask_group(const std::vector<Question>& questions, Group& group,
                                      std::vector<Shot>& shots, Footprint& footprint) {
  introduce_all(questions, group);
  if (!fire(shots, group.senders, pace_, {stop_})) return std::nullopt;
  distrust(shots, questions, facts_);
  Answers out;
  for (std::size_t i = 0; i < shots.size(); ++i) {
    out.all.push_back(shots[i].answer);
    if (has_failed(questions[i], shots[i], group, footprint)) {
      out.failures.push_back({i, shots[i].answer});
    }
  }
  footprint.forget();
  const bool is_followed = out.failures.empty() || follow(questions, group, footprint, out);
  return is_followed ? std::optional(std::move(out)) : std::nullopt;
}

std::vector<Guest> Run::guests_of(const Group& group) const {
  netlink::RouteSocket node;
  std::map<std::string, std::optional<netlink::Link>> bridges;
  std::vector<Guest> out;
  for (const std::size_t pod : group.pods) {
    const Subject& one = subjects_[pod];
    const auto [bridge, is_new] = bridges.try_emplace(one.bridge);
    if (is_new && !one.bridge.empty()) bridge->second = node.find(one.bridge);
    out.push_back({one, out.size() + 1, bridge->second.value_or(netlink::Link{})});
  }
  return out;
}

void Run::introduce_all(const std::vector<Question>& questions, const Group& group) const {
  std::vector<Guest> guests = guests_of(group);
  netlink::RouteSocket node;
  for (Guest& one : guests) {
    if (one.bridge.index != 0 && !hears_broadcasts(one, node)) one.bridge = {};
  }
  std::vector<Introduction> all;
  const auto add = [&](const std::vector<Introduction>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  for (const Guest& one : guests) {
    const bool is_introduced = are_introduced_[group.pods[one.place - 1]];
    if (is_introduced && one.bridge.index != 0) add(introductions_to_node(one, facts_));
  }
  const auto guest_of = [&](std::size_t pod) -> const Guest& {
    return guests[static_cast<std::size_t>(std::ranges::find(group.pods, pod) -
                                           group.pods.begin())];
  };
  for (const Question& one : questions) {
    if (!one.sender || !are_introduced_[*one.sender] || *one.sender == one.subject) continue;
    const Guest& sender = guest_of(*one.sender);
    if (sender.bridge.index == 0) continue;
    add(introductions_of(sender, guest_of(one.subject), one.packet.target));
  }
  if (!all.empty()) introduce(all, group.places);
}

void Run::expect(const std::vector<Question>& questions, const Group& group,
                 const std::vector<Shot>& shots, Footprint& footprint) const {
  for (std::size_t i = 0; i < shots.size(); ++i) {
    const auto target = std::ranges::find(group.pods, questions[i].subject) - group.pods.begin();
    std::vector<std::size_t> where{0, static_cast<std::size_t>(target) + 1};
    const std::size_t sender = shots[i].sender;
    if (sender != 0 && sender < group.places.size()) where.push_back(sender);
    footprint.expect(shots[i].packet, mark_, where);
  }
}

std::vector<Sent> Run::sent_of(const std::vector<Question>& questions, const Group& group,
                               const std::vector<Shot>& shots) const {
  const auto place_of = [](const NetNs& ns) { return static_cast<std::uint32_t>(ns.id().inode); };
  const std::uint32_t node = place_of(group.places.front());
  std::vector<Sent> out;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Question& question = questions[i];
    Sent one{shots[i].packet, question.destination, {shots[i].packet.target}, facts_.addresses, {},
             {node}};
    if (one.packet.source) one.hops.push_back(*one.packet.source);
    if (one.destination) one.hops.push_back(*one.destination);
    for (const std::size_t pod : {question.subject, question.sender.value_or(question.subject)}) {
      const auto at = std::ranges::find(group.pods, pod) - group.pods.begin();
      one.places.push_back(place_of(group.places[static_cast<std::size_t>(at) + 1]));
      for (const cni::Interface& interface : subjects_[pod].result.interfaces) {
        if (interface.sandbox.empty()) one.links.push_back(interface.name);
      }
      for (const cni::Address& address : subjects_[pod].result.ips) {
        one.hops.push_back(address.cidr.ip);
        if (address.gateway) one.hops.push_back(*address.gateway);
      }
    }
    const netlink::Family family = one.packet.target.family();
    if (const auto& uplink = facts_.uplink(family)) {
      one.hops.insert(one.hops.end(), {uplink->own, uplink->gateway});
    }
    std::erase_if(one.hops, [&](const Ip& ip) { return ip.family() != family; });
    out.push_back(std::move(one));
  }
  return out;
}

void Run::add_limit(const std::string& text) {
  if (std::ranges::find(limits_, text) == limits_.end()) limits_.push_back(text);
}

bool Run::follow(const std::vector<Question>& questions, Group& group, Footprint& footprint,
                 Answers& answers) {
  std::vector<Failure>& failures = answers.failures;
  const std::vector<Question> again = followed(questions, failures);
  mark_ = Mark::random();
  open_senders(group);
  const Posts posts = posts_of(again, group);
  std::vector<Shot> shots = shots_of(again, group);
  footprint.restore();  // so that the link layer is asked at once, and seen
  expect(again, group, shots, footprint);
  footprint.remember();
  const Cleaner cleaner([&] { footprint.restore_for_other(); });
  const std::vector<Sent> sent = sent_of(again, group, shots);
  // Behind the child, which would keep their tables.
  Trackers trackers(mark_, sent, posts.all, addresses_in(again));
  const Pace once{.per_second = pace_.per_second, .attempts = 1, .end = pace_.end};
  const bool is_whole =
      fire(shots, group.senders, once, {stop_, trackers.fd(), [&] { trackers.read(); }});
  distrust(shots, again, facts_);
  auto trails = trackers.trails();
  for (const std::string& one : trackers.limits()) add_limit(one);
  Scene scene(facts_);
  for (std::size_t i = 0; is_whole && i < again.size(); ++i) {
    const Question& question = again[i];
    Case one{.question = question,
             .subject = subjects_[question.subject],
             .sender = sender_of(question, group),
             .source = shots[i].packet.source,
             .answer = shots[i].answer,
             .trail = std::move(trails[static_cast<std::uint16_t>(i)]),
             .resolutions = &trackers.resolutions(),
             .legacy = &trackers.legacy(),
             .sender_place = question.sender ? posts.places.at(*question.sender) : 0,
             .subject_place = posts.places.at(question.subject),
             .is_heard = trackers.follows_rules(),
             .flow = footprint.flow_of(0, shots[i].packet, mark_),
             .small_is_lost = is_lost_small(question, questions, answers.all)};
    judge(one, scene, failures[i]);
  }
  footprint.forget();
  settle(answers);
  return is_whole;
}

}  // namespace tool::probe

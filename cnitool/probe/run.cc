#include "cnitool/probe/run.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using cni::cat;
using netlink::NetNs;

// Failures of the same cause are followed once each all the same; more than this many say no more.
constexpr std::size_t kMostFollowed = 512;

// A router, or another host: that the link layer finds it is what a pod needs of it.
bool is_found(const NetNs& ns, const Ip& ip) {
  netlink::RouteSocket socket(ns);
  const auto path = socket.path_to(ip);
  const auto found = path ? netlink::find_neighbour(socket, path->link, ip) : std::nullopt;
  return found && found->mac && !found->has_failed();
}

// Whether a small packet to where the large one goes is lost, too.
bool is_lost_small(const Question& large, const std::vector<Question>& lost) {
  return std::ranges::any_of(lost, [&](const Question& one) {
    return one.packet.size == 0 && one.sender == large.sender &&
           one.packet.kind == large.packet.kind && one.packet.target == large.packet.target;
  });
}

}  // namespace

Run::Run(const std::vector<Subject>& subjects, const NodeFacts& facts, const Pace& pace, int stop)
    : subjects_(subjects), facts_(facts), pace_(pace), stop_(stop) {}

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
  for (const NetNs& ns : out.places) out.senders.emplace_back(ns, mark_);
  return out;
}

std::vector<Shot> Run::shots_of(const std::vector<Question>& questions, const Group& group) const {
  std::vector<Shot> out;
  for (const Question& one : questions) {
    Shot shot{.packet = one.packet};
    if (one.sender) {
      const auto at = std::ranges::find(group.pods, *one.sender) - group.pods.begin();
      shot.sender = static_cast<std::size_t>(at) + 1;
    } else {
      shot.packet.source = group.senders[0].source_for(one.packet.target);
    }
    shot.packet.number = static_cast<std::uint16_t>(out.size());
    shot.packet.token = Mark::random().cookie;
    out.push_back(shot);
  }
  return out;
}

bool Run::has_failed(const Question& question, const Shot& shot, const Group& group,
                     Footprint& footprint) const {
  if (shot.answer.is_delivered()) {
    const Case one{.question = question,
                   .subject = subjects_[question.subject],
                   .flow = footprint.flow_of(0, shot.packet, mark_)};
    // The kernel forgets a connection that was refused at once: the second look says where it was.
    const bool is_unknown = question.destination && shot.answer.kind == Answer::Kind::kClosed;
    return one.flow ? went_astray(one, facts_) : is_unknown;
  }
  if (question.about != About::kGateway || question.must_answer || !question.sender) return true;
  return !is_found(group.places[shot.sender], question.packet.target);
}

std::optional<std::vector<Failure>> Run::ask(const std::vector<Question>& questions) {
  mark_ = Mark::random();
  Group group = group_of(questions);
  std::vector<Shot> shots = shots_of(questions, group);
  Footprint footprint(group.places);
  const bool is_whole = fire(shots, group.senders, pace_, {stop_});
  std::vector<Failure> out;
  for (std::size_t i = 0; is_whole && i < shots.size(); ++i) {
    if (has_failed(questions[i], shots[i], group, footprint)) out.push_back({i, shots[i].answer});
  }
  forget(questions, group, shots, footprint);
  const bool is_followed = !is_whole || out.empty() || follow(questions, group, footprint, out);
  footprint.restore();
  if (!is_whole || !is_followed) return std::nullopt;
  return out;
}

void Run::forget(const std::vector<Question>& questions, const Group& group,
                 const std::vector<Shot>& shots, Footprint& footprint) const {
  for (std::size_t i = 0; i < shots.size(); ++i) {
    const auto target = std::ranges::find(group.pods, questions[i].subject) - group.pods.begin();
    footprint.forget(shots[i].packet, mark_,
                     {0, shots[i].sender, static_cast<std::size_t>(target) + 1});
  }
}

bool Run::follow(const std::vector<Question>& questions, Group& group, Footprint& footprint,
                 std::vector<Failure>& failures) {
  std::vector<Question> again;
  for (const Failure& one : failures) {
    if (again.size() < kMostFollowed) again.push_back(questions[one.question]);
  }
  mark_ = Mark::random();
  group.senders.clear();
  for (const NetNs& ns : group.places) group.senders.emplace_back(ns, mark_);
  std::optional<Follower> follower;
  try {
    follower.emplace(mark_);
  } catch (const netlink::Error& e) {
    cni::note(cat("probe: packets cannot be traced: ", e.what()));
  }
  std::vector<Shot> shots = shots_of(again, group);
  Pace once = pace_;
  once.attempts = 1;
  Watched watched{.stop = stop_};
  if (follower) watched = {stop_, follower->fd(), [&] { follower->read(); }};
  const bool is_whole = fire(shots, group.senders, once, watched);
  auto trails = follower ? follower->trails() : std::map<std::uint16_t, Trail>();
  netlink::RouteSocket node;
  for (std::size_t i = 0; is_whole && i < again.size(); ++i) {
    const Question& question = again[i];
    if (shots[i].answer.kind != Answer::Kind::kNone) failures[i].answer = shots[i].answer;
    const Case one{.question = question,
                   .subject = subjects_[question.subject],
                   .sender = question.sender ? &subjects_[*question.sender] : nullptr,
                   .source = shots[i].packet.source,
                   .answer = shots[i].answer,
                   .trail = std::move(trails[static_cast<std::uint16_t>(i)]),
                   .flow = footprint.flow_of(0, shots[i].packet, mark_),
                   .small_is_lost = is_lost_small(question, again)};
    failures[i].cause = cause_of(one, node, facts_);
  }
  forget(again, group, shots, footprint);
  std::erase_if(failures, [](const Failure& one) {
    return !one.cause && one.answer.is_delivered();  // it was looked at once more, and is fine
  });
  return is_whole;
}

}  // namespace tool::probe

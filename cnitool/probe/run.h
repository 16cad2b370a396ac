#pragma once

#include <map>
#include <optional>
#include <vector>

#include "cnitool/probe/cause.h"
#include "cnitool/probe/footprint.h"
#include "cnitool/probe/question.h"
#include "cnitool/probe/sender.h"

/// Sends the probes of some questions, and follows those that fail.
namespace tool::probe {

/// A question whose promise is not kept.
struct Failure {
  std::size_t question = 0;  ///< an index
  Answer answer = {};
  std::optional<Cause> cause = {};
};

class Run {
 public:
  /// All of these outlive it. \throws netlink::Error.
  Run(const std::vector<Subject>& subjects, const NodeFacts& facts, const Pace& pace, int stop);

  /// The questions whose answers are not what was promised, with their causes.
  /// \return nothing where it was stopped.
  std::optional<std::vector<Failure>> ask(const std::vector<Question>& questions);

 private:
  /// The senders of a group of questions: the node is the first.
  struct Group {
    std::vector<std::size_t> pods;  ///< indexes of subjects, of the senders behind the first
    std::vector<netlink::NetNs> places;
    std::vector<Sender> senders;
  };
  Group group_of(const std::vector<Question>& questions) const;
  std::vector<Shot> shots_of(const std::vector<Question>& questions, const Group& group) const;
  bool has_failed(const Question& question, const Shot& shot, const Group& group,
                  Footprint& footprint) const;
  /// Removes the connections of the probes, wherever they may be tracked.
  void forget(const std::vector<Question>& questions, const Group& group,
              const std::vector<Shot>& shots, Footprint& footprint) const;
  bool follow(const std::vector<Question>& questions, Group& group, Footprint& footprint,
              std::vector<Failure>& failures);

  const std::vector<Subject>& subjects_;
  const NodeFacts& facts_;
  Pace pace_;
  int stop_;
  Mark mark_ = Mark::random();  ///< a new one for each round: what comes late is of none
};

}  // namespace tool::probe

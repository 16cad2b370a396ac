#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cnitool/probe/cause.h"
#include "cnitool/probe/footprint.h"
#include "cnitool/probe/introduction.h"
#include "cnitool/probe/question.h"
#include "cnitool/probe/sender.h"

/// Sends the probes of some questions, and follows those that fail.
namespace tool::probe {

/// A question whose promise is not kept.
struct Failure {
  std::size_t question = 0;  ///< an index
  Answer answer = {};
  std::optional<Cause> cause = {};
  std::string where = {};  ///< it was last seen; empty: unknown
  bool is_found = false;   ///< a router that may answer nobody is there, which is enough
};

/// What came of questions.
struct Answers {
  std::vector<Answer> all;  ///< of each question
  std::vector<Failure> failures;
};

class Run {
 public:
  /// All of these outlive it. \throws netlink::Error.
  Run(const std::vector<Subject>& subjects, const NodeFacts& facts, const Pace& pace, int stop);

  /// The answers, and the questions whose answers are not what was promised, with their causes.
  /// \return nothing where it was stopped.
  std::optional<Answers> ask(const std::vector<Question>& questions);
  /// What could not be looked at on the way of failed probes, so that causes there have no name,
  /// and what this node keeps of all; a sentence each.
  const std::vector<std::string>& limits() const { return limits_; }

 private:
  /// The senders of a group of questions: the node is the first.
  struct Group {
    std::vector<std::size_t> pods;  ///< indexes of subjects, of the senders behind the first
    std::vector<netlink::NetNs> places;
    std::vector<Sender> senders;
    /// In whose name packets come in, by the last of the senders; its address is its subnet.
    std::optional<Subject> outside = {};
  };
  /// Where probes are followed: the node is the first, and the places of pods, by their indexes.
  struct Posts {
    std::vector<Follower::Post> all;
    std::map<std::size_t, std::size_t> places;
  };
  Posts posts_of(const std::vector<Question>& questions, const Group& group) const;
  std::vector<Ip> addresses_in(const std::vector<Question>& questions) const;
  Group group_of(const std::vector<Question>& questions) const;
  void open_senders(Group& group) const;
  Footprint footprint_of(const Group& group) const;
  std::vector<Shot> shots_of(const std::vector<Question>& questions, const Group& group) const;
  /// Null: the node.
  const Subject* sender_of(const Question& question, const Group& group) const;
  bool has_failed(const Question& question, const Shot& shot, const Group& group,
                  Footprint& footprint) const;
  std::vector<Guest> guests_of(const Group& group) const;
  /// Shows pods of large bridges those whom they are about to ask.
  void introduce_all(const std::vector<Question>& questions, const Group& group) const;
  void expect(const std::vector<Question>& questions, const Group& group,
              const std::vector<Shot>& shots, Footprint& footprint) const;
  std::optional<Answers> ask_group(const std::vector<Question>& questions, Group& group,
                                   std::vector<Shot>& shots, Footprint& footprint);
  std::vector<Sent> sent_of(const std::vector<Question>& questions, const Group& group,
                            const std::vector<Shot>& shots) const;
  void add_limit(const std::string& text);
  bool follow(const std::vector<Question>& questions, Group& group, Footprint& footprint,
              Answers& answers);

  const std::vector<Subject>& subjects_;
  const NodeFacts& facts_;
  Pace pace_;
  int stop_;
  std::vector<bool> are_introduced_;  ///< of the subjects
  std::vector<std::string> limits_;
  Mark mark_ = Mark::random();  ///< a new one for each round: what comes late is of none
};

}  // namespace tool::probe

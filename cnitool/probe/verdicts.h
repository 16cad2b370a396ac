#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cnitool/probe/probe.h"
#include "cnitool/probe/run.h"

/// What failed questions say together.
namespace tool::probe {

/// Causes, each with the questions that fail by it.
class Verdicts {
 public:
  /// Both outlive it.
  Verdicts(const std::vector<Subject>& subjects, const NodeFacts& facts)
      : subjects_(subjects), facts_(facts) {}

  /// A pod, by its index, and a family of its addresses.
  using End = std::pair<std::size_t, netlink::Family>;
  /// What is wrong with some of them, by something else than a question.
  struct Known {
    doctor::Finding finding;
    std::vector<End> ends;
  };

  /// Appends the questions, and their answers.
  void add(const std::vector<Question>& questions, const Answers& answers, Outcome& out);
  /// A failure without a cause, or with a vague one, that another cause of the same pods and family
  /// explains is none of its own: with that gone, another probe says what is left. Completes the
  /// questions that add() appended. Those that are known explain failures, too.
  doctor::Findings findings(const std::vector<Known>& known, Outcome& out);
  /// Whether a failure there has a cause of its own.
  bool has_cause(const End& end) const;

 private:
  struct Failed {
    Question question;
    Failure failure;
    std::size_t asked = 0;  ///< an index of Outcome::questions
  };
  struct Entry {
    doctor::Names networks, lines, remedies;
    std::set<End> ends;
    std::string why = {};  ///< of what is known by something else
  };
  /// What it is, and whose.
  using Causes = std::map<std::pair<std::string, std::string>, Entry>;

  static std::vector<End> ends_of(const Question& question);
  static std::string remedy_of(const Entry& entry);
  bool is_beyond(const Question& question) const;
  Causes::value_type& cause_of(const Failed& one);
  void add_known(const Known& known);
  void blame(const Failed& one, Causes::value_type& cause, Outcome& out) const;
  Causes::value_type* explaining(const Failed& one);

  const std::vector<Subject>& subjects_;
  const NodeFacts& facts_;
  Causes causes_;
  std::vector<Failed> failed_;
};

}  // namespace tool::probe

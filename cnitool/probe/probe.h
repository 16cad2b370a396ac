#pragma once

#include <string>
#include <vector>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "cnitool/probe/question.h"
#include "cnitool/settings.h"

/// cnitool probe: sends what pods would send, and names what takes it.
namespace tool::probe {

/// What is to be probed, and how.
struct Options {
  Selection which = {};
  std::string pod = {};       ///< [NAMESPACE/]NAME or a container ID: these of which alone
  std::string to = {};        ///< what Target has; empty: what configs promise
  std::string from = {};      ///< an address in whose name packets come in; empty: none
  unsigned per_second = 100;  ///< packets, for all pods
  unsigned limit = 60;        ///< seconds
  bool dry_run = false;       ///< prints the questions, and sends nothing
  bool watch = false;         ///< again and again, printing changes
  unsigned interval = 5;      ///< seconds from one round of watch to the next
  bool is_alive = false;      ///< a choice of pods without one that lives is an error
  int stop_fd = -1;           ///< readable: the user wants an end; -1: none
};

/// A question, and what came of it.
struct Asked {
  cni::AttachmentKey pod;  ///< whose promise it is
  bool is_beyond = false;  ///< the other end is a host beyond the node, or a server
  std::string text;
  std::string answer;
  /// kOk, kUnknown (a host that may answer nobody), or kError.
  doctor::Level level = doctor::Level::kOk;
  std::string cause = {};  ///< Finding::what, of kError
};

/// What was asked, and what is wrong.
struct Outcome {
  std::vector<Asked> questions = {};
  doctor::Findings findings = {};
  /// What could not be looked at where probes failed, and what they do not pass; a sentence each.
  std::vector<std::string> limits = {};
  bool is_whole = true;  ///< false: it was stopped, or the time was up

  std::size_t count(doctor::Level level) const;
  bool is_fine() const { return findings.empty() && is_whole; }
};

/// The questions that the options lead to, without an answer. \throws cni::Error, netlink::Error.
std::vector<Question> plan(const Settings& settings, const Options& options);

/// Probes the attachments of the cache whose pods live. Leaves nothing behind on the node.
/// \throws cni::Error, netlink::Error.
Outcome probe(const Settings& settings, const Options& options);

}  // namespace tool::probe

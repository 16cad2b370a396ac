#pragma once

#include <string>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "cnitool/settings.h"

/// cnitool probe: sends what pods would send, and names what takes it.
namespace tool::probe {

/// What is to be probed, and how.
struct Options {
  Selection which = {};
  std::string to;             ///< ADDRESS or ADDRESS:PORT; empty: what configs promise
  unsigned per_second = 100;  ///< packets, for all pods
  unsigned limit = 60;        ///< seconds
  bool dry_run = false;       ///< prints the questions, and sends nothing
  int stop_fd = -1;           ///< readable: the user wants an end; -1: none
};

/// What was asked, and what is wrong.
struct Outcome {
  std::size_t asked = 0, answered = 0;
  std::size_t unanswered = 0;  ///< without a known reason, by hosts that may answer nobody
  doctor::Findings findings = {};
  bool is_whole = true;  ///< false: it was stopped, or the time was up
};

/// What is wrong with the text of --to; empty: nothing.
std::string refusal_of_target(const std::string& text);

/// Probes the attachments of the cache whose pods live. Leaves nothing behind on the node.
/// \throws cni::Error, netlink::Error.
Outcome probe(const Settings& settings, const Options& options);

/// Prints it. False: a pod cannot do what its config promises, or not all was asked.
bool report(const Settings& settings, const Options& options, const Output& output);

}  // namespace tool::probe

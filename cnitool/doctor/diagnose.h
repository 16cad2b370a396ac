#pragma once

#include "cnitool/doctor/node.h"
#include "cnitool/output.h"
#include "cnitool/probe/probe.h"
#include "cnitool/settings.h"
#include "libcni/plugin/request.h"

/// cnitool doctor: what keeps pods from their networks on this node.
namespace tool::doctor {

/// Prints what all checks have to say of the node: what, why it matters and what to do. False where
/// something is an error.
bool report(const Node& node, const Output& output);

/// Things to look at beside the networks themselves.
struct Scope {
  bool kubernetes = false;
  std::string node_json;  ///< the Node object: a file, or "-"; empty: none
  bool probe = false;     ///< sends packets as pods would: probe/
  std::string nodes;      ///< those to reach, as Node objects: a file, or "-"; empty: none
};

/// The doctor's command line.
struct Question {
  Selection which;
  Scope scope;
  probe::Options probing = {};
};

/// report() of this node, or of some pods on it; changes nothing.
bool diagnose(const Settings& settings, const Question& question, const cni::Env& env,
              const Output& output);

}  // namespace tool::doctor

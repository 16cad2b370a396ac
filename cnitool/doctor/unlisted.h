#pragma once

#include <set>
#include <string>
#include <vector>

#include "cnitool/doctor/node.h"

namespace tool::doctor {

/// What lives although the cache does not have it: its entry was lost, or another runtime has it.
struct Unlisted {
  std::vector<cni::AttachmentKey> attachments;
  /// Host veths whose alias is too short for the container's ID, which no lease or state file
  /// names either.
  std::vector<SeenLink> links;

  /// What the tags of all of them begin with.
  std::set<std::string> tags() const;
};

/// An attachment counts if a link with its tag, a lease with the address of an interface, or a
/// state file with its namespace shows that its pod lives.
Unlisted unlisted(const Node& node);

}  // namespace tool::doctor

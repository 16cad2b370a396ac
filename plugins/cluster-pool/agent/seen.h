#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "plugins/cluster-pool/agent/object.h"
#include "plugins/state/blocks.h"

namespace block_agent {

/// The engine as lists and events said last, in a file, since an agent may be away meanwhile. Not
/// as answers of calls did: those may be later than a list that is under way.
struct Seen {
  std::string cluster = {};  ///< "": never
  std::map<Kind, std::uint64_t> revisions = {};
  bool is_settling = false;  ///< after a restore: Keeper::Times::settle is not over

  static Seen read(const blocks::Folder& folder);
  void write(const blocks::Folder& folder) const;
  void raise(const Object& object);
};

}  // namespace block_agent

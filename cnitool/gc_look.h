#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libcni/plugin/life.h"
#include "libcni/runtime/runtime.h"

/// What `cnitool gc` finds before it removes anything.
namespace tool {

/// Something of which nobody knows whether its pod lives.
struct Unknown {
  std::string what;
  std::string_view why;
  bool operator==(const Unknown&) const = default;
};

/// An attachment in the cache.
struct Entry {
  cni::CachedAttachment cached;
  cni::Life life;
};

/// One whose entry cannot be read.
struct BrokenEntry {
  cni::Cache::Broken file;
  cni::Attachment whose;  ///< as the file's name says
  cni::Life life;
};

/// What a network has beside what is kept, and what is known of it.
struct GcLook {
  cni::Cache::Listing cache = {};
  std::vector<Entry> entries = {};
  std::vector<BrokenEntry> broken = {};
  std::vector<cni::Runtime::Found> found = {};  ///< of no entry
};

/// Whether plugins are asked of a list whose version has no GC, which then removes nothing of them.
enum class Asks { kAlways, kIfNeeded };

GcLook look_at(const cni::NetworkList& list, const cni::RuntimeOptions& options,
               const std::vector<cni::Attachment>& keep, Asks asks);

/// A look, and what was unknown twice: a pod that starts or ends is so for a moment.
struct Settled {
  GcLook look;
  std::vector<Unknown> unknown;
};

Settled settled_look(const cni::NetworkList& list, const cni::RuntimeOptions& options,
                     const std::vector<cni::Attachment>& keep, Asks asks);

/// "interface 'eth0' of container 'c1' in network 'net1'".
std::string name_of(const BrokenEntry& one, const std::string& network);

}  // namespace tool

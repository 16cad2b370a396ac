#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "libcni/common/dir.h"
#include "libcni/plugin/request.h"

namespace flannel {

/// What is at the name of a state file.
struct State {
  std::string name;             ///< of the file
  std::string config = {};      ///< the delegate's; empty: the file is torn, or no file
  cni::AttachmentKey key = {};  ///< network: in the config; ifname: empty where nothing tells it
  std::time_t modified = 0;     ///< seconds since the epoch
};

/// The files with the delegates' configs, in `dataDir`. The one of a container's first attachment
/// has the name and the content that the reference plugin gives it, so that each plugin's DEL
/// removes what the other's ADD made; an extended attribute has its interface. Those of further
/// attachments, which the reference plugin would write over it, are CONTAINER:INTERFACE.
class StateFiles {
 public:
  /// nullopt if the directory does not exist.
  static std::optional<StateFiles> find(const std::string& path);
  static StateFiles create(const std::string& path);

  /// The state of an attachment; also a torn one, which may be another attachment's of the
  /// container. \throws cni::Error for JSON that is no delegate's config.
  std::optional<State> of(const cni::Request& request) const;
  /// Written to disk before it has its name: at any time the name has this content or the earlier
  /// one, after a power loss, too. One process at a time for a container, whose files may
  /// have one name. \throws netlink::Error.
  void put(const cni::Request& request, const std::string& config) const;
  /// Removes it, and what a killed put() left. An empty name: there was none.
  void remove(const cni::Request& request, const std::string& name) const;
  void remove(const std::string& name) const { dir_.remove(name); }
  /// All that are whole. Other JSON is noted.
  std::vector<State> all() const;
  std::string path_of(const std::string& name) const {
    return netlink::cat(dir_.path(), "/", name);
  }

 private:
  explicit StateFiles(cni::Dir dir) : dir_(std::move(dir)) {}
  std::optional<State> read(const std::string& name) const;
  std::string ifname_of(const std::string& name) const;
  void write(const std::string& name, const std::string& aside, const cni::Request& request,
             const std::string& config) const;

  cni::Dir dir_;
};

}  // namespace flannel

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libcni/common/dir.h"
#include "libcni/plugin/request.h"
#include "netlink/route/link.h"
#include "plugins/tuning/conf.h"

/// What the pod's settings were before ADD changed them: two files per attachment in `dataDir`. The
/// one of the interface has the name and the keys of the reference plugin's, so that each plugin's
/// DEL restores what the other's ADD changed; the reference has none of sysctls.
namespace tuning {

/// Settings of an interface; absent: was not changed.
struct LinkSettings {
  std::optional<netlink::Mac> mac = {};
  std::optional<bool> promiscuous = {};
  std::optional<unsigned> mtu = {};  ///< bytes
  std::optional<bool> all_multicast = {};
  std::optional<std::uint32_t> tx_queue_length = {};  ///< packets
  std::optional<unsigned> host_mtu = {};              ///< bytes, of the host veth
  bool operator==(const LinkSettings&) const = default;
};

/// One of the files.
struct State {
  std::string network = {}, container_id = {}, ifname = {};  ///< empty in the reference's files
  std::string netns = {};                                    ///< CNI_NETNS
  std::uint64_t cookie = 0;  ///< RouteSocket::cookie() of the pod's namespace; 0: unknown
  LinkSettings link = {};
  std::vector<Sysctl> sysctls = {};  ///< paths below /proc/sys/net, in the order of their change
  bool operator==(const State&) const = default;
};

std::string text_of(const State& state);
/// Nothing for another content.
std::optional<State> state_from(const std::string& text);

/// The names of the files of an attachment.
struct StateFiles {
  std::string link, sysctls;
};
StateFiles state_files_of(const cni::Request& request);

/// The state in the file; nothing where there is none that can be read.
std::optional<State> read_state(const cni::Dir& dir, const std::string& file);
/// Writes or replaces it.
void write_state(const cni::Dir& dir, const std::string& file, const std::string& text);

/// Undo step of ADD: the file as it was before.
struct RestoreFile {
  std::string dir, file;
  std::optional<std::string> content;
  void operator()() const;
  std::string describe() const { return cni::cat("restore the file '", file, "'"); }
};

}  // namespace tuning

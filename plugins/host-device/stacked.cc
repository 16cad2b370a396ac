#include "plugins/host-device/stacked.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/common/split.h"
#include "libcni/common/undo.h"
#include "netlink/types/fd.h"

namespace host_device {

namespace {

using cni::cat;
using netlink::Link;
using netlink::NetNs;
using netlink::RouteSocket;
using Clock = std::chrono::steady_clock;

// Under the lock of all devices, and a pod decides how many namespaces and links it has.
constexpr std::chrono::seconds kTimeLimit{3};
// Each finds what was moved to a namespace that the one before had seen already.
constexpr int kMaxPasses = 5;

// "net:[4026531840]"
std::optional<std::uint64_t> inode_in(std::string_view text) {
  constexpr std::string_view kPrefix = "net:[";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end != text.data() + text.size() && *end == ']'
             ? std::optional(out)
             : std::nullopt;
}

std::string target_of(const std::string& path) {
  char text[64];
  const ssize_t size = ::readlink(path.c_str(), text, sizeof text);
  return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : std::string();
}

// A path of each network namespace that a process is in or that is mounted; the own one excepted.
std::map<std::uint64_t, std::string> namespaces() {
  std::map<std::uint64_t, std::string> out;
  const auto proc = cni::Dir::open("/proc");
  for (const std::string& name : proc ? proc->names() : std::vector<std::string>()) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string path = cat("/proc/", name, "/ns/net");
    if (const auto inode = inode_in(target_of(path))) out.emplace(*inode, path);
  }
  const std::string mounts = netlink::read_file("/proc/self/mountinfo").value_or("");
  for (const auto line : cni::split(mounts, "\n")) {
    // proc(5): ID parent major:minor root mount-point ...
    const auto words = cni::split(line, " ");
    const auto inode = words.size() > 4 ? inode_in(words[3]) : std::nullopt;
    if (inode) out.emplace(*inode, words[4]);
  }
  if (const auto own = inode_in(target_of("/proc/thread-self/ns/net"))) out.erase(*own);
  return out;
}

std::optional<NetNs> try_open(const std::string& path) {
  try {
    return NetNs::find(path);
  } catch (const netlink::Error&) {  // of a process that this one may not look at
    return std::nullopt;
  }
}

// The nsid of the device in the link's namespace, if a device of this index is below the link.
std::optional<int> nsid_below(const Link& link, int index) {
  if (link.kind.empty() || link.kind == "veth" || link.kind == "netkit") return std::nullopt;
  const bool has_parent = link.parent_index != 0;  // macsec and the like have a peer
  if ((has_parent ? link.parent_index : link.peer_index) != index) return std::nullopt;
  return has_parent ? link.parent_nsid : link.peer_nsid;
}

// Calls found() for each. False: the time was not enough.
template <class Found>
bool for_each(const Link& device, Clock::time_point end, Found&& found) {
  const NetNs home = NetNs::current();
  for (const auto& [inode, path] : namespaces()) {
    if (Clock::now() > end) return false;
    const auto ns = try_open(path);
    if (!ns) continue;
    RouteSocket there(*ns);
    std::optional<std::optional<int>> nsid;  // once the links were shown, see there; mostly never
    for (const Link& link : there.links()) {
      const auto below = nsid_below(link, device.index);
      if (!below) continue;
      if (!nsid) nsid = there.nsid(home);
      if (*nsid == below) found(there, link, Stacked{inode, link.index});
    }
  }
  return true;
}

}  // namespace

std::optional<std::vector<Stacked>> stacked_on(const Link& device) {
  std::vector<Stacked> out;
  const bool is_all = for_each(device, Clock::now() + kTimeLimit,
                               [&](RouteSocket&, const Link&, Stacked one) { out.push_back(one); });
  return is_all ? std::optional(std::move(out)) : std::nullopt;
}

void remove_stacked(const Link& device, const std::vector<Stacked>& before) {
  const auto end = Clock::now() + kTimeLimit;
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    bool is_clean = true;
    const auto remove = [&](RouteSocket& there, const Link& link, Stacked one) {
      if (std::ranges::find(before, one) != before.end()) return;
      is_clean = false;
      there.send(netlink::remove_link(link));
    };
    if (!for_each(device, end, remove)) {  // no error: a pod must not make DEL fail
      return cni::note(cat("remove links that stand on '", device.name,
                           "': not all network namespaces were searched in ", kTimeLimit.count(),
                           " s"));
    }
    if (is_clean) return;
  }
}

}  // namespace host_device

#include "plugins/host-local/neighbours.h"

#include <unistd.h>

#include <algorithm>

#include "libcni/common/hash.h"
#include "libcni/config/names.h"
#include "plugins/common/link/host_veth.h"
#include "plugins/host-local/index.h"
#include "plugins/names/links.h"

namespace host_local {

using cni::cat;

static constexpr const char* kBridge = "bridge";  // a key of the plugin bridge

std::optional<Segment> Segment::of(const cni::Request& request) {
  std::string type;
  Segment out{.bridge = names::kDefaultBridge};
  const cni::Reader root = request.reader();
  root.into("type", type);
  if (cni::stands_for(type, "ptp")) return Segment{};
  if (!cni::stands_for(type, "bridge")) return std::nullopt;
  root.into(kBridge, out.bridge);
  return out;
}

Neighbours::Neighbours(const std::optional<Segment>& segment, const std::string& data_dir,
                       const std::string& network)
    : segment_(segment) {
  if (!segment_) return;
  base_ = cni::Dir::open(data_dir);
  if (!base_) return;
  others_ = base_->names();
  std::erase(others_, network);
}

std::string Neighbours::network_with(const Ip& ip) {
  for (const std::string& network : others_) {
    const std::string file = cat(network, "/", ip.str());
    if (::faccessat(base_->fd(), file.c_str(), F_OK, 0) == 0 && lives(network, ip)) return network;
  }
  return {};
}

bool Neighbours::lives(const std::string& network, const Ip& ip) {
  const auto dir = base_->sub_or_link(network);
  const auto file = dir ? dir->read(ip.str()) : std::nullopt;
  const auto owner = file ? Owner::parse(file->content) : std::nullopt;
  if (!owner || owner->ifname.empty()) return false;
  if (!host_) host_.emplace();
  const auto veths =
      plugins::host_veths_of(*host_, cni::OwnerTag(network, owner->id, owner->ifname).prefix());
  return std::ranges::any_of(veths, [&](const auto& link) { return is_on_segment(link); });
}

bool Neighbours::is_on_segment(const netlink::Link& link) {
  if (!link.peer_nsid || !host_->has_namespace(*link.peer_nsid)) return false;
  if (segment_->bridge.empty() || link.master == 0) {
    return segment_->bridge.empty() && link.master == 0;
  }
  const auto master = host_->find(link.master);
  return master && master->name == segment_->bridge;
}

}  // namespace host_local

#include "cnitool/probe/introduction.h"

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "cnitool/probe/scene.h"
#include "netlink/route/bridge_port.h"
#include "netlink/route/socket.h"

namespace tool::probe {

namespace {

using Clock = std::chrono::steady_clock;
using netlink::Mac;
using netlink::Neighbour;

Neighbour neighbour_at(const netlink::Link& from, const Ip& ip, const Mac& mac) {
  return {.ip = ip, .link = from.index, .mac = mac};
}

/// A place, and a socket there.
class Places {
 public:
  explicit Places(const std::vector<netlink::NetNs>& all) : all_(all) {}
  netlink::RouteSocket& at(std::size_t place) {
    const auto found = sockets_.find(place);
    if (found != sockets_.end()) return found->second;
    return sockets_.emplace(place, netlink::RouteSocket(all_[place])).first->second;
  }

 private:
  const std::vector<netlink::NetNs>& all_;
  std::map<std::size_t, netlink::RouteSocket> sockets_;
};

// What is not known to be right yet.
void drop_confirmed(Places& places, std::vector<Introduction>& open) {
  std::erase_if(open, [&](const Introduction& one) {
    const auto now = netlink::find_neighbour(places.at(one.place), one.who.link, one.who.ip);
    return !now || now->is_confirmed();
  });
}

}  // namespace

std::vector<bool> behind_first(const std::vector<Subject>& subjects) {
  std::map<std::string, std::size_t> counts;
  std::vector<bool> out;
  for (const Subject& one : subjects) {
    out.push_back(!one.bridge.empty() && ++counts[one.bridge] > kMostBroadcasting);
  }
  return out;
}

bool hears_broadcasts(const Guest& guest, netlink::RouteSocket& node) {
  const auto link = node.find(guest.pod.link.peer_index);
  const auto port = link ? netlink::bridge_port(node, *link) : std::nullopt;
  return !port || (port->bcast_flood && port->mcast_flood && port->flood);
}

std::vector<Introduction> introductions_to_node(const Guest& guest, const NodeFacts& facts) {
  std::vector<Introduction> out;
  for (const cni::Address& address : addresses_of(guest.pod)) {
    if (!address.gateway || !facts.has(*address.gateway)) continue;
    out.push_back({guest.place, neighbour_at(guest.pod.link, *address.gateway, guest.bridge.mac)});
    out.push_back({0, neighbour_at(guest.bridge, address.cidr.ip, guest.pod.link.mac)});
  }
  return out;
}

std::vector<Introduction> introductions_of(const Guest& sender, const Guest& subject,
                                           const Ip& target) {
  const bool is_pod = sender.bridge.index == subject.bridge.index &&
                      address_of(subject.pod, target.family()) == target;
  for (const cni::Address& address : addresses_of(sender.pod)) {
    if (!is_pod || !address.cidr.contains(target)) continue;
    const Ip& own = address.cidr.ip;
    return {{sender.place, neighbour_at(sender.pod.link, target, subject.pod.link.mac)},
            {subject.place, neighbour_at(subject.pod.link, own, sender.pod.link.mac)}};
  }
  return {};
}

void introduce(const std::vector<Introduction>& all, const std::vector<netlink::NetNs>& places) {
  constexpr auto kTick = std::chrono::milliseconds(4), kPatience = std::chrono::milliseconds(100);
  Places sockets(places);
  std::vector<Introduction> open;
  std::set<std::tuple<std::size_t, int, Ip>> made;
  for (const Introduction& one : all) {
    if (!one.who.mac || one.who.mac->is_zero() || one.who.link == 0) continue;
    if (!made.emplace(one.place, one.who.link, one.who.ip).second) continue;
    if (!sockets.at(one.place).attempt(netlink::introduce(one.who))) open.push_back(one);
  }
  for (const auto end = Clock::now() + kPatience; !open.empty() && Clock::now() < end;) {
    std::this_thread::sleep_for(kTick);
    drop_confirmed(sockets, open);
  }
  for (const Introduction& one : open) {
    sockets.at(one.place).attempt(netlink::remove(one.who));
  }
}

}  // namespace tool::probe

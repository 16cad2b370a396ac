#include "cnitool/probe/scene.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "libcni/common/error.h"
#include "libcni/plugin/node_tool.h"
#include "netlink/sysctl.h"

namespace tool::probe {

using cni::cat;
using netlink::Family;
using netlink::NetNs;

std::optional<netlink::Neighbour> resolved_by(ArpClock::time_point end,
                                              netlink::RouteSocket& socket, int link,
                                              const Ip& ip) {
  constexpr std::uint16_t kIncomplete = 1;  // NUD_INCOMPLETE
  constexpr auto kStep = std::chrono::milliseconds(10);
  for (;;) {
    auto found = netlink::find_neighbour(socket, link, ip);
    if (found && found->mac && !found->has_failed()) return found;
    if (!found || found->state != kIncomplete || ArpClock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(kStep);
  }
}

NetNs Scene::place_of(const Subject* where) const {
  return where == nullptr ? NetNs::current() : NetNs::open(where->netns);
}

netlink::RouteSocket& Scene::at(const Subject* where) {
  const auto found = sockets_.find(where);
  if (found != sockets_.end()) return found->second;
  return sockets_.emplace(where, netlink::RouteSocket(place_of(where))).first->second;
}

const Wire& Scene::wire_of(const Subject& pod) {
  const auto found = wires_.find(&pod);
  if (found != wires_.end()) return found->second;
  Wire out;
  netlink::RouteSocket& node = at(nullptr);
  out.inner = at(&pod).find(pod.key.ifname);
  if (out.inner && out.inner->kind == "veth") {
    out.outer = node.find(out.inner->peer_index);
    // The number is that of a link there: another namespace may have it, too.
    if (out.outer && out.outer->peer_index != out.inner->index) out.outer.reset();
  }
  if (!pod.bridge.empty()) out.bridge = node.find(pod.bridge);
  if (out.bridge && out.bridge->kind != "bridge") out.bridge.reset();
  return wires_.emplace(&pod, std::move(out)).first->second;
}

const std::vector<netlink::PolicyStep>& Scene::policy(const Subject* where, Family family) {
  const Key key(where, family);
  const auto found = policies_.find(key);
  if (found != policies_.end()) return found->second;
  return policies_.emplace(key, netlink::policy_of(at(where), family)).first->second;
}

const std::vector<netlink::LinkRoute>& Scene::routes(const Subject* where, Family family) {
  const Key key(where, family);
  const auto found = routes_.find(key);
  if (found != routes_.end()) return found->second;
  return routes_.emplace(key, at(where).all_routes(family)).first->second;
}

std::optional<std::string> Scene::sysctl(const Subject* where, const std::string& key) {
  const NetNs::Entered there(place_of(where));
  return netlink::read_sysctl(key);
}

int Scene::greater(const Subject* where, const std::string& link, const std::string& key) {
  int out = 0;
  for (const std::string& name : {std::string("all"), link}) {
    const auto value = sysctl(where, cat("net/ipv4/conf/", name, "/", key));
    if (value) out = std::max(out, std::atoi(value->c_str()));
  }
  return out;
}

std::optional<netlink::Neighbour> Scene::resolved(const Subject* where, int link, const Ip& ip) {
  return resolved_by(end_, at(where), link, ip);
}

std::string Scene::output_of(const Subject* where, const char* program,
                             const std::vector<std::string>& arguments) {
  std::vector<std::string> key{program};
  key.insert(key.end(), arguments.begin(), arguments.end());
  const auto [at, is_new] = outputs_.try_emplace({where, std::move(key)});
  const auto file = is_new ? cni::find_node_tool(program) : std::nullopt;
  if (file) {
    const NetNs::Entered there(place_of(where));
    try {
      at->second = cni::run_node_tool(*file, arguments, "").out;
    } catch (const cni::Error&) {  // a pod has more there than anybody reads
    }
  }
  return at->second;
}

std::optional<Ip> address_of(const Subject& one, Family family) {
  for (const cni::Address& address : addresses_of(one)) {
    if (address.cidr.ip.family() == family) return address.cidr.ip;
  }
  return std::nullopt;
}

netlink::Cidr subnet_of(const Subject& one, Family family) {
  for (const cni::Address& address : addresses_of(one)) {
    if (address.cidr.ip.family() == family) return address.cidr.network();
  }
  return {Ip::any(family), 0};
}

std::string name_of(const Subject* where) {
  return where == nullptr ? "the node" : cat("the pod '", where->name, "'");
}

std::string prefix_of(const Subject* where) {
  return where == nullptr ? "" : cat("in ", name_of(where), ": ");
}

std::string restart_of(const Subject& pod) {
  return cat("restart the pod '", pod.name, "': its network namespace is made anew");
}

std::string command_in(const Subject* where, const std::string& command) {
  if (where == nullptr) return command;
  const bool is_list =
      command.find(';') != std::string::npos || command.find("&&") != std::string::npos;
  return cat("nsenter --net=", doctor::quoted(where->netns), " ",
             is_list ? cat("sh -c ", doctor::quoted(command)) : command);
}

}  // namespace tool::probe

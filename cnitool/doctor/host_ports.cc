#include <netinet/in.h>

#include <algorithm>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/known_plugins.h"
#include "libcni/common/file_users.h"
#include "libcni/config/nearest.h"
#include "netlink/diag.h"

namespace tool::doctor {

namespace {

using netlink::Family;
using netlink::Ip;

int protocol_of(const std::string& text) {
  const std::string name = cni::lower(text);
  if (name == "udp") return IPPROTO_UDP;
  return name == "sctp" ? IPPROTO_SCTP : IPPROTO_TCP;
}

// CRI-O binds the hostPorts of its pods itself, as a reservation; conmon of podman has the
// container's ID among its arguments.
bool is_reserved(const cni::FileUser& user, const AttachmentState& pod) {
  return user.name == "crio" || user.has_argument(pod.key.container_id);
}

// The socket that would make ADD of the pod fail, as portmap looks for it.
std::optional<netlink::Holder> listener_on(const HostPort& port, Family family) {
  const auto address = Ip::parse(port.ip);
  if (address && address->family() != family) return std::nullopt;
  const bool is_one = address && !address->is_unspecified();
  const auto number = static_cast<std::uint16_t>(port.host);
  const int protocol = protocol_of(port.protocol);
  if (netlink::can_bind(family, protocol, is_one ? address : std::nullopt, number)) return {};
  const auto all = netlink::port_holders(family, protocol, number);
  const auto found = std::ranges::find_if(all, [&](const netlink::Holder& one) {
    return one.address.is_unspecified() || !is_one || one.address == *address;
  });
  return found == all.end() ? std::nullopt : std::optional(*found);
}

bool has_address_of(const AttachmentState& pod, Family family) {
  return std::ranges::any_of(
      pod.result.ips, [family](const cni::Address& one) { return one.cidr.ip.family() == family; });
}

bool has_portmap(const AttachmentState& pod) {
  return std::ranges::any_of(
      pod.types, [](const std::string& type) { return facts_of(type).has(cni::Fact::kPorts); });
}

std::optional<TakenPort> taken(const Node& node, const AttachmentState& pod, const HostPort& port) {
  for (const Family family : netlink::kFamilies) {
    if (!has_address_of(pod, family)) continue;
    const auto listener = listener_on(port, family);
    if (!listener) continue;
    const auto users = cni::users_of_socket(listener->inode);
    if (std::ranges::any_of(users, [&](const auto& one) { return is_reserved(one, pod); }))
      continue;
    return TakenPort{.network = pod.key.network,
                     .pod = name_of(node, pod.key),
                     .port = cat(cni::lower(port.protocol), " port ", port.host),
                     .filter = cat("--", cni::lower(port.protocol), " 'sport = :", port.host, "'"),
                     .holder = users.empty() ? "a socket of the node" : users.front().str()};
  }
  return std::nullopt;
}

}  // namespace

std::vector<TakenPort> taken_ports(const Node& node) {
  std::vector<TakenPort> out;
  for (const AttachmentState& pod : node.attachments) {
    if (!pod.is_alive() || !node.which.has(pod.key) || !has_portmap(pod)) continue;
    for (const HostPort& port : pod.host_ports) {
      if (auto found = taken(node, pod, port)) out.push_back(*std::move(found));
    }
  }
  return out;
}

// portmap refuses such a port at ADD: the process came later.
Findings check_host_ports(const Node& node) {
  Findings out;
  for (const TakenPort& one : node.taken_ports) {
    out.push_back({Level::kWarning,
                   cat("hostPort ", one.port, " of ", one.pod, ": ", one.holder, " listens on it"),
                   "the pod gets what is sent to the port, and the process nothing; if the pod is "
                   "restarted, ADD fails. Give one of them another port",
                   cat("ss -lnp ", one.filter),
                   {one.network}});
  }
  return out;
}

}  // namespace tool::doctor

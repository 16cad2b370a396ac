// A plugin of somebody else that gives a link of the pod an address, over the installed rtnetlink
// layer.
#include "libcni/config/keys.h"
#include "libcni/plugin/plugin.h"
#include "netlink/route/socket.h"

namespace {

struct Conf {
  netlink::Cidr address;
};

constexpr auto kKeys = cni::keys(
    cni::key<&Conf::address>({.name = "address", .description = "the address", .required = true}));

constexpr cni::Manual kManual{.purpose = "adds an address to the link CNI_IFNAME", .keys = kKeys};

Conf conf_of(const cni::Request& request) {
  Conf conf;
  cni::read_keys(request.reader(), kKeys, conf);
  return conf;
}

struct RemoveAddress {
  netlink::NetNs ns;
  std::string link;
  netlink::Cidr address;
  void operator()() const {
    netlink::RouteSocket pod(ns);
    if (const auto found = pod.find(link)) pod.send(netlink::remove(*found, address));
  }
  std::string describe() const { return cni::cat("remove ", address.str(), " from '", link, "'"); }
};

cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = conf_of(request);
  const netlink::NetNs ns = cni::open_netns(request);
  netlink::RouteSocket pod(ns);
  const netlink::Link link = pod.get(request.ifname);
  pod.send(netlink::add(link, {.cidr = conf.address}));
  undo.add(RemoveAddress{ns, link.name, conf.address});
  cni::Result result;
  result.interfaces = {{.name = link.name, .mac = link.mac.str(), .sandbox = request.netns}};
  result.ips = {{.cidr = conf.address, .interface = 0}};
  return result;
}

void del(const cni::Request& request) {
  if (const auto ns = netlink::NetNs::find(request.netns)) {
    RemoveAddress{*ns, request.ifname, conf_of(request).address}();
  }
}

}  // namespace

int main(int argc, char** argv) {
  return cni::plugin_main(
      {.name = "add-address", .verbs = {.add = add, .del = del}, .manual = &kManual}, argc, argv);
}

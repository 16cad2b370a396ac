// A plugin of another project that creates a link: a veth pair between the pod and the node.
#include "libcni/config/keys.h"
#include "libcni/plugin/plugin.h"
#include "netlink/route/socket.h"

struct Conf {
  std::string host_link;
  netlink::Cidr address;
};

constexpr auto kKeys =
    cni::keys(cni::key<&Conf::host_link>(
                  {.name = "hostLink", .description = "name of the host veth", .required = true}),
              cni::key<&Conf::address>(
                  {.name = "address", .description = "address of the pod", .required = true}));
constexpr cni::Manual kManual{
    .purpose = "creates a veth pair", .keys = kKeys, .facts = {cni::Fact::kInterface}};

static Conf conf_of(const cni::Request& request) {
  Conf conf;
  cni::read_keys(request.reader(), kKeys, conf);
  return conf;
}

struct RemoveLink {  // both ends; the alias names the owner, so that another one's link stays
  std::string name, owner;
  void operator()() const {
    netlink::RouteSocket node;
    const auto link = node.find(name);
    if (link && link->alias == owner) node.send(netlink::remove_link(*link));
  }
  std::string describe() const { return cni::cat("remove '", name, "'"); }
};

static cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = conf_of(request);  // all of the input before any change
  const netlink::NetNs ns = cni::open_netns(request);
  netlink::RouteSocket node, pod(ns);
  node.send(
      netlink::add(netlink::Veth{.end = {.name = conf.host_link, .mac = netlink::Mac::random()},
                                 .peer = {.name = request.ifname, .mac = netlink::Mac::random()},
                                 .peer_ns = ns}));
  undo.add(RemoveLink{conf.host_link, ""});
  node.send(
      netlink::set_link({.name = conf.host_link}, {.up = true, .alias = request.container_id}));
  undo.add(RemoveLink{conf.host_link, request.container_id});
  const netlink::Link link = pod.get(request.ifname);
  pod.send({netlink::add(link, {.cidr = conf.address}), netlink::set_link(link, {.up = true})});
  cni::Result result;
  result.interfaces = {{.name = link.name, .mac = link.mac.str(), .sandbox = request.netns}};
  result.ips = {{.cidr = conf.address, .interface = 0}};
  return result;
}

static void del(const cni::Request& request) {
  RemoveLink{conf_of(request).host_link, request.container_id}();
}

int main(int argc, char** argv) {
  constexpr cni::Verbs kVerbs{.add = add, .del = del};
  return cni::plugin_main(
      {.name = "wire", .verbs = kVerbs, .manual = &kManual, .version = "v1.0.0"}, argc, argv);
}

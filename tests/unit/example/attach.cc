#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>

#include "libcni/runtime/runtime.h"

int main(int argc, char** argv) try {
  if (argc != 7) {
    std::cerr << "usage: attach add|del NETWORK NETNS NETWORKS_DIR PLUGINS_DIR STATE_DIR\n";
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);  // a plugin need not read its stdin
  const cni::Networks networks = cni::load_networks(argv[4]);
  const cni::NetworkList& network = networks.find(argv[2]);
  const cni::Runtime runtime({.path = {argv[5]}, .cache_dir = argv[6]});
  const cni::Target target{.container_id = "example", .netns = argv[3]};
  if (std::string_view(argv[1]) == "del") {
    runtime.del(network, target);
    return 0;
  }
  const cni::Result result = cni::result_from(runtime.add(network, target));
  for (const auto& address : result.ips) std::cout << address.cidr.str() << '\n';
  return 0;
} catch (const cni::Error& e) {
  std::cerr << e.what() << " (code " << static_cast<unsigned>(e.code()) << ")\n";
  return 1;
}

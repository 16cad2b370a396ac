// flanneld's subnet.env.
#include "libcni/config/subnet_env.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepts([&] {
    const auto env = cni::SubnetEnv::parse(fuzz::text_of(data, size), "file");
    for (const auto* networks : {&env.networks, &env.ipv6_networks}) {
      for (const netlink::Cidr& one : *networks) {
        fuzz::require(one == one.network(), "a network has no host bits");
        fuzz::require(one.ip.is_v4() == (networks == &env.networks), "a network of its family");
      }
    }
    fuzz::require(!env.subnet || env.subnet->ip.is_v4(), "a subnet of its family");
  });
  return 0;
}

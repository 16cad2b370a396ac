#include "netlink/types/hints.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "netlink/types/error.h"

namespace netlink {

namespace {

struct Module {
  std::string_view name, option;
};

constexpr Module kModules[] = {
    {"8021q", "CONFIG_VLAN_8021Q"},
    {"act_mirred", "CONFIG_NET_ACT_MIRRED"},
    {"bridge", "CONFIG_BRIDGE"},
    {"cls_bpf", "CONFIG_NET_CLS_BPF"},
    {"cls_u32", "CONFIG_NET_CLS_U32"},
    {"dummy", "CONFIG_DUMMY"},
    {"ifb", "CONFIG_IFB"},
    {"ipvlan", "CONFIG_IPVLAN"},
    {"macvlan", "CONFIG_MACVLAN"},
    {"nf_tables", "CONFIG_NF_TABLES"},
    {"nft_chain_nat", "CONFIG_NFT_NAT"},
    {"nft_fib_inet", "CONFIG_NFT_FIB_INET"},
    {"nft_fib_ipv4", "CONFIG_NFT_FIB_IPV4"},
    {"nft_fib_ipv6", "CONFIG_NFT_FIB_IPV6"},
    {"nft_masq", "CONFIG_NFT_MASQ"},
    {"nft_nat", "CONFIG_NFT_NAT"},
    {"sch_bfifo", "CONFIG_NET_SCHED"},  // part of the kernel's core, never a module
    {"sch_fq", "CONFIG_NET_SCH_FQ"},
    {"sch_fq_codel", "CONFIG_NET_SCH_FQ_CODEL"},
    {"sch_htb", "CONFIG_NET_SCH_HTB"},
    {"sch_ingress", "CONFIG_NET_SCH_INGRESS"},
    {"sch_tbf", "CONFIG_NET_SCH_TBF"},
    {"tun", "CONFIG_TUN"},
    {"veth", "CONFIG_VETH"},
    {"vrf", "CONFIG_NET_VRF"},
};

}  // namespace

std::string load_hint(std::string_view module) {
  const auto* const known =
      std::ranges::find_if(kModules, [module](const Module& one) { return one.name == module; });
  const std::string how = cat("load the module '", module, "': modprobe ", module);
  return known == std::end(kModules) ? how : cat(how, " (", known->option, ")");
}

std::string_view limit_hint(int error) {
  if (error == EMFILE) return "raise the process's limit of open files: ulimit -n";
  if (error == ENFILE) return "raise the node's limit of open files: sysctl fs.file-max";
  return {};
}

}  // namespace netlink

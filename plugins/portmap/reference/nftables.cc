#include "plugins/portmap/reference/reference.h"

namespace portmap::reference {

namespace {

namespace nf = netlink::nf;

constexpr const char* kTable = "cni_hostport";
/// The second one is of earlier releases; the third exists only with snat.
constexpr const char* kChains[] = {"hostports", "hostip_hostports", "masquerading"};

void plan_remove(nf::NfSocket& socket, const std::string& container_id, nf::Batch& batch) {
  for (const nf::TableFamily family : {nf::TableFamily::kIp, nf::TableFamily::kIp6}) {
    // All releases create this chain with the table.
    if (!socket.has_chain({family, kTable, kChains[0]})) continue;
    for (const char* const chain : kChains) {
      // A longer comment with this prefix is another container's.
      for (const nf::Rule& rule : socket.rules({family, kTable, chain}, {container_id})) {
        if (rule.comment == container_id) batch.remove(rule);
      }
    }
  }
}

}  // namespace

void remove(nf::NfSocket& socket, const std::string& container_id) {
  socket.commit_planned([&](nf::Batch& batch) { plan_remove(socket, container_id, batch); });
}

}  // namespace portmap::reference

#include "plugins/cluster-pool/ask.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "plugins/leases/allocate.h"
#include "plugins/names/blocks.h"

namespace cluster_pool {

using cni::cat;
using netlink::Ip;

bool is_time_to_count(const std::vector<SetShare>& shares, const Ip& allocated) {
  constexpr std::uint64_t kSmall = 128;  // addresses of a set
  constexpr unsigned kOneOf = 4;
  const auto is_small = [](const SetShare& one) { return one.addresses.size() <= kSmall; };
  return std::ranges::any_of(shares, is_small) ||
         allocated.data()[allocated.size() - 1] % kOneOf == 0;
}

void add_nearly_full(blocks::Want& want, const std::vector<SetShare>& shares,
                     const leases::Store& store) {
  // The number of names, which is quicker to have, says of most networks that there is no need.
  const std::size_t names = store.dir().names().size();
  const auto may_be_full = [&](const SetShare& share) { return is_nearly_full(share, names); };
  if (std::ranges::none_of(shares, may_be_full)) return;
  const auto used = store.used();
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto count = leases::used_of(shares[i].addresses, used).size();
    if (is_nearly_full(shares[i], count)) want.sets.push_back({i, shares[i].blocks});
  }
}

std::string agent_says(const blocks::Folder& folder, const std::string& network,
                       const std::optional<blocks::Held>& held) {
  if (!held && folder.has_held(network) && !folder.dir().has_file(cat(network, ".json"))) {
    return cat("'", folder.path(), "/", network, ".json' is no file: remove it");
  }
  if (!held && folder.has_held(network)) {
    return cat("'", folder.path(), "/", network,
               ".json' is torn, and patchbay-agent has not written it again");
  }
  if (!held) {
    return cat("patchbay-agent has never written about network '", network, "' to ", folder.path(),
               ": is it running with ", names::kBlocksConfig,
               "? `patchbay-agent status` says so. It gave no answer");
  }
  if (!held->note.empty()) return cat("patchbay-agent: ", held->note, "; it claimed no block");
  return "patchbay-agent was asked for a block and claimed none yet: `patchbay-agent status` says "
         "whether etcd or the API server answers it";
}

}  // namespace cluster_pool

#include "plugins/cluster-pool/agent/vanished.h"

#include <algorithm>
#include <utility>

namespace block_agent {

void Vanished::keep(View& view, std::vector<Object> gone, cni::BootTime until) {
  std::map<std::string, One> out;
  for (Object& one : gone) {
    const std::string key = key_of(one);
    const auto before = all_.find(key);
    const bool is_known = before != all_.end() && before->second.object.is_claim_of(one);
    one.version = 0;  // whatever an event says of it is later
    view.put(one);
    out.emplace(key, One{std::move(one), is_known ? before->second.until : until});
  }
  all_ = std::move(out);
}

cni::BootTime Vanished::drop(View& view, cni::BootTime now) {
  cni::BootTime next = cni::kNever;
  std::erase_if(all_, [&](const auto& one) {
    const bool is_over = one.second.until <= now;
    if (is_over) view.erase(one.second.object);
    if (!is_over) next = std::min(next, one.second.until);
    return is_over;
  });
  return next;
}

}  // namespace block_agent

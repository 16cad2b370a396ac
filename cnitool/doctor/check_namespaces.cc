#include <map>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"
#include "cnitool/output.h"

// Pods that live while nothing is at the path of their namespace: somebody unmounted it, or this
// process is in another mount namespace than the runtime.
namespace tool::doctor {

namespace {

// A name for the namespace that a process of the pod has. To look from the mount namespace of the
// first process is harmless where there is none.
std::string naming_of(const std::vector<const AttachmentState*>& all) {
  std::vector<std::string> out;
  std::set<std::string> named;
  for (const AttachmentState* one : all) {
    if (one->seen_at.empty() || !named.insert(one->netns).second) continue;
    const std::string path = quoted(one->netns);
    out.push_back(cat("touch ", path, " && mount --bind ", one->seen_at, " ", path));
  }
  return out.empty() ? "nsenter -t 1 -m cnitool doctor" : joined(out, " && ");
}

}  // namespace

Findings check_namespaces(const Node& node) {
  std::map<std::string, std::vector<const AttachmentState*>> found;
  for (const AttachmentState& one : node.attachments) {
    if (one.lost_its_name && node.which.has(one.key)) found[one.key.network].push_back(&one);
  }
  Findings out;
  for (const auto& [network, all] : found) {
    std::vector<std::string> names;
    for (const AttachmentState* one : all) names.push_back(name_of(node, one->key));
    const bool is_one = all.size() == 1;
    out.push_back({Level::kError,
                   cat("network '", network, "' has ", counted(all.size(), "attachment"),
                       is_one ? " whose pod lives, but not at the path of its namespace: "
                              : " whose pods live, but not at the paths of their namespaces: ",
                       some_of(names)),
                   "somebody unmounted it, or the runtime has another mount namespace: CHECK and "
                   "REPAIR do not reach the pod from here, and DEL undoes only what is on the node",
                   naming_of(all),
                   {network}});
  }
  return out;
}

}  // namespace tool::doctor

#include "libcni/plugin/collect.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcni/config/json.h"

namespace cni {

namespace {

// Reads "..., net: NETWORK, if: IFNAME, id: CONTAINER"; empty if it was cut off.
Attachment owner_in(std::string_view tag, const std::string& network) {
  constexpr std::string_view kIf = ", if: ", kId = ", id: ";
  const auto ifname = tag.rfind(kIf), id = tag.rfind(kId);
  if (ifname == tag.npos || id == tag.npos || id < ifname) return {};
  const auto start = ifname + kIf.size();
  Attachment out{std::string(tag.substr(id + kId.size())),
                 std::string(tag.substr(start, id - start))};
  return tag.starts_with(OwnerTag(network, out.container_id, out.ifname).prefix()) ? out
                                                                                   : Attachment{};
}

}  // namespace

nlohmann::ordered_json json_of(const std::vector<Leftover>& found) {
  auto out = nlohmann::ordered_json::array();
  for (const Leftover& one : found) {
    if (!one.network.empty()) {
      out.push_back({{"network", one.network}});
      continue;
    }
    out.push_back({{"what", one.what},
                   {"container", one.container_id},
                   {"ifname", one.ifname},
                   {"tag", one.tag},
                   {"alive", one.alive}});
  }
  return out;
}

std::vector<Leftover> leftovers_in(const std::string& printed) {
  const nlohmann::json doc = parse_json(printed, "what GC found");
  std::vector<Leftover> out;
  for (const Reader& one : Reader(doc, Code::kDecodingFailure).elements()) {
    Leftover& into = out.emplace_back();
    one.into("what", into.what);
    one.into("container", into.container_id);
    one.into("ifname", into.ifname);
    one.into("tag", into.tag);
    one.into("alive", into.alive);
    one.into("network", into.network);
  }
  return out;
}

Collect::Collect(const std::string& network, std::vector<Attachment> valid, bool only_look)
    : network_(network), valid_(std::move(valid)), only_look_(only_look) {
  for (const Attachment& one : valid_) {
    keep_.insert(OwnerTag(network, one.container_id, one.ifname).prefix());
  }
}

bool Collect::is_stale(std::string_view tag) const {
  const OwnerTag any(network_, "", "");
  return tag.starts_with(any.network_hash + '-') &&
         !keep_.contains(tag.substr(0, any.prefix().size()));
}

bool Collect::takes(const std::string& what, const std::string& tag, bool alive) {
  if (only_look_) find_other(OwnerTag::network_in(tag));
  if (!is_stale(tag)) return false;
  auto [container_id, ifname] = owner_in(tag, network_);
  const std::string prefix = tag.substr(0, OwnerTag(network_, "", "").prefix().size());
  return takes_stale({what, std::move(container_id), std::move(ifname), prefix, alive});
}

bool Collect::takes(const std::string& what, const std::string& network, const Attachment& owner,
                    bool alive) {
  if (only_look_) find_other(network);
  const std::string &id = owner.container_id, &ifname = owner.ifname;
  const bool is_kept = std::any_of(valid_.begin(), valid_.end(), [&](const Attachment& one) {
    return one.container_id == id && (ifname.empty() || one.ifname == ifname);
  });
  if (network != network_ || is_kept) return false;
  return takes_stale({what, id, ifname, OwnerTag(network, id, ifname).prefix(), alive});
}

void Collect::add(const std::vector<Leftover>& found) {
  for (const Leftover& one : found) takes_stale(one);
}

void Collect::find_other(const std::string& network) {
  Leftover other;
  other.network = network;
  if (!network.empty() && network != network_) takes_stale(std::move(other));
}

// A plan of changes may be made more than once.
bool Collect::takes_stale(Leftover one) {
  if (!only_look_) return true;
  if (std::find(found_.begin(), found_.end(), one) == found_.end()) {
    found_.push_back(std::move(one));
  }
  return false;
}

}  // namespace cni

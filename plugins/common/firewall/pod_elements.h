#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/config/conf.h"
#include "netlink/nf/socket.h"
#include "netlink/types/ip.h"

/// Elements of nf_tables' sets and maps whose key is the address of a pod, and whose comment is the
/// cni::OwnerTag of its attachment. The last ADD owns an address. Pods of several networks may have
/// the same one: then a second set of the family, "SET_more", whose keys are address and owner, has
/// the elements of the others, and the one that remains gets the address back.
namespace plugins {

/// The sets of a table, one per family.
struct PodSets {
  netlink::nf::SetId v4, v6;
  std::optional<netlink::nf::KeyType> data = {};  ///< maps only
  const netlink::nf::SetId& of(netlink::Family family) const;
};

/// The owner's elements, in the order of the addresses; nothing where an address has none. owner is
/// OwnerTag::prefix().
std::vector<std::optional<netlink::nf::Element>> find_elements(
    netlink::nf::NfSocket& socket, const PodSets& sets, std::string_view owner,
    const std::vector<netlink::Ip>& addresses);

/// Adds to batch what the sets lack of wanted. The element of another attachment is kept aside.
void plan_add_elements(netlink::nf::NfSocket& socket, const PodSets& sets,
                       const std::vector<netlink::nf::Element>& wanted, netlink::nf::Batch& batch);

using MatchesTag = std::function<bool(const std::string& comment)>;

/// Adds to batch the removal of all elements whose comment matches, by a listing of the sets.
void plan_remove_elements_if(netlink::nf::NfSocket& socket, const PodSets& sets,
                             const MatchesTag& matches, netlink::nf::Batch& batch);

/// Adds to batch the removal of an attachment's elements: by the addresses, if they are all of it,
/// else by a listing. owner is OwnerTag::prefix(). False: the owner does not have all addresses.
bool plan_remove_elements(netlink::nf::NfSocket& socket, const PodSets& sets,
                          std::string_view owner, const std::vector<netlink::Ip>& addresses,
                          netlink::nf::Batch& batch);

}  // namespace plugins

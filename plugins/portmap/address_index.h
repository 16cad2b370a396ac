#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libcni/common/dir.h"
#include "netlink/types/ip.h"

namespace portmap {

/// The attachments with mappings that lead to an address: a symbolic link "ip-ADDRESS" in the
/// folder of the state files, which leads to their tags, a line each. Networks with overlapping
/// ranges may have one address. It is made after the state file, before the rules, and removed
/// after them, before the state file. A tag too much does no harm: the state file decides.
class AddressIndex {
 public:
  explicit AddressIndex(const cni::Dir& dir) : dir_(dir) {}

  /// By one system call where there are none.
  std::vector<std::string> tags(const netlink::Ip& address) const;
  void put(const netlink::Ip& address, const std::string& tag) const;
  void remove(const netlink::Ip& address, const std::string& tag) const;
  /// Lists the folder.
  void remove_if(const std::function<bool(const std::string& tag)>& is_stale) const;

 private:
  void write(const std::string& name, const std::vector<std::string>& tags) const;
  const cni::Dir& dir_;
};

}  // namespace portmap

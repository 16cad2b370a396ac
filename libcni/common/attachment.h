#pragma once

#include <compare>
#include <string>

#include "libcni/common/hash.h"

namespace cni {

/// An interface of a container in a network that is known, for example an attachment that GC keeps.
struct Attachment {
  std::string container_id, ifname;
  auto operator<=>(const Attachment&) const = default;
};

/// The name of an attachment.
struct AttachmentKey {
  std::string network, container_id, ifname;
  auto operator<=>(const AttachmentKey&) const = default;

  Attachment in_network() const { return {container_id, ifname}; }
  OwnerTag owner_tag() const { return {network, container_id, ifname}; }
  /// Its prefix().
  std::string tag() const { return owner_tag().prefix(); }
  /// 16 hex digits of SHA-512(container_id).
  std::string container_hash() const { return sha512_hex(container_id, 16); }
  /// "interface 'eth0' of container 'c1' in network 'net1'".
  std::string str() const;
  /// "container 'c1' (network 'net1', interface 'eth0')".
  std::string as_owner() const;
  /// In the results cache: NETWORK-CONTAINER-IFNAME. The dashes make it ambiguous, so what is in a
  /// file decides. \throws Error(kInvalidEnvironment) where a part is empty or no part of a file's
  /// name, or the whole is longer than a file's name may be.
  std::string file_name() const;
};

}  // namespace cni

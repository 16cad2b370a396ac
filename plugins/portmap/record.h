#pragma once

#include <compare>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libcni/common/dir.h"
#include "plugins/portmap/conf.h"
#include "plugins/portmap/mapping.h"

/// What portmap knows of containers with mapped ports: one file per container in /run/cni/portmap,
/// written before the rules are and removed after them. DEL and GC work from it; without the file
/// a container has no mapped port that was set up here, and nobody asks the kernel.
namespace portmap {

/// Whose a mapping is.
struct Owner {
  std::string network, container_id, ifname;
  auto operator<=>(const Owner&) const = default;

  /// 16 hex digits of SHA-512(container_id): the name of the container's file.
  std::string container_hash() const;
  /// "H1-H2-C": hashes of network, of interface and container (as in cni::OwnerTag), and
  /// container_hash(); 50 characters. What the comments of elements start with.
  std::string tag() const;
  /// tag() and, for people, the names in clear; at most 128 bytes, no double quotes.
  std::string comment() const;
  /// The container_hash() in a tag; empty where it is none.
  static std::string container_hash_in(const std::string& tag);
  /// "container 'c1' (network 'net1', interface 'eth0')".
  std::string str() const;
};

/// One attachment's mappings as they were set up.
struct Attachment {
  Owner owner;
  std::string netns;        ///< CNI_NETNS
  std::string netns_inode;  ///< "DEVICE:INODE" of it at the time, since paths are used again
  Backend backend = Backend::kNftables;
  Options options;
  PodAddresses pod;
  std::vector<Claim> claims;
  /// nftables: set up by an older version, which masqueraded by the link that leads to the pod: its
  /// name per family; empty where nothing is masqueraded.
  bool by_link = false;
  std::string device_v4, device_v6;
  const std::string& device(Family family) const {
    return family == Family::kIpv4 ? device_v4 : device_v6;
  }
  bool operator==(const Attachment&) const = default;
};

/// All attachments of a container, the oldest first.
using Container = std::vector<Attachment>;

/// The file of a container with at least one attachment, and what such a file says; nothing where
/// it is none that was written here.
std::string text_of(const Container& container);
std::optional<Container> container_from(const std::string& text);

class Records {
 public:
  static constexpr const char* kPath = "/run/cni/portmap";

  /// Nothing where the directory does not exist.
  static std::optional<Records> find(const std::string& path = kPath);
  static Records create(const std::string& path = kPath);

  /// Held until the result is closed. \throws cni::Error(kTryAgainLater).
  netlink::Fd lock() const;

  struct Reading {
    bool there = false;  ///< a file, though it may be unreadable: then with no attachments
    Container attachments;
  };
  Reading read(const std::string& container_hash) const;
  bool has(const std::string& container_hash) const { return dir_.has(container_hash); }
  /// What is known of one attachment.
  std::optional<Attachment> find(const Owner& owner) const;
  /// Adds or replaces one attachment of its container; returns what was known of it before.
  std::optional<Attachment> put(const Attachment& attachment) const;
  /// Removes one attachment, and the file with the last one or where it is unreadable.
  void remove(const Owner& owner) const;
  /// Removes the file of a container, whatever it holds.
  void discard(const std::string& container_hash) const { dir_.remove(container_hash); }
  /// All containers' hashes: for GC.
  std::vector<std::string> all() const;

  /// Claims of the iptables backend: symbolic links from keys to tags in the directory "claims".
  /// The owner's tag; empty where nobody has the key.
  std::string claimant(const Key& key) const;
  void claim(const Key& key, const Owner& owner) const;
  /// False: the owner has it not, and it stays.
  bool release(const Key& key, const Owner& owner) const;
  /// All claims whose tag is to go: a listing.
  void release_if(const std::function<bool(const std::string& tag)>& is_to_go) const;

 private:
  explicit Records(cni::Dir dir) : dir_(std::move(dir)) {}
  cni::Dir dir_;
};

}  // namespace portmap

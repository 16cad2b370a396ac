#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcni/common/attachment.h"
#include "libcni/common/dir.h"
#include "plugins/names/state.h"
#include "plugins/portmap/address_index.h"
#include "plugins/portmap/conf.h"
#include "plugins/portmap/mapping.h"

/// State files: one file per container with mapped ports in /run/cni/portmap. ADD writes it before
/// the rules, DEL removes it after them. Without the file a container has no port that this plugin
/// mapped, so that DEL needs no request to the kernel.
namespace portmap {

/// The attachment that owns a mapping.
using Owner = cni::AttachmentKey;
/// 16 hex digits of SHA-512(container_id): the name of the container's file.
std::string container_hash(const Owner& owner);
/// "H1-H2-C": AttachmentKey::tag() and container_hash(); 50 characters. Comments of elements start
/// with it.
std::string tag_of(const Owner& owner);
/// Of an element: tag_of() and the names in clear; at most 128 bytes, no double quotes.
std::string element_comment(const Owner& owner);
/// The container_hash() in a tag; empty for other text.
std::string container_hash_in(const std::string& tag);
/// Whether the tag is that of another attachment of the same container.
bool is_of_sibling(const std::string& tag, const Owner& owner);

/// The mappings of one attachment, as ADD set them up.
struct Attachment {
  Owner owner;
  std::string netns;        ///< CNI_NETNS
  std::string netns_inode;  ///< "DEVICE:INODE" at ADD: a path can be reused
  BackendName backend = BackendName::kNftables;
  bool detected = false;  ///< the config names no backend
  Options options;
  PodAddresses pod;
  std::vector<Claim> claims;

  bool has(Family family) const;    ///< a claim of the family
  std::vector<Ip> targets() const;  ///< the pod's addresses to which claims lead
  bool operator==(const Attachment&) const = default;
};

/// The claim of the key; null without one.
const Claim* claim_of(const std::vector<Claim>& claims, const Key& key);

/// All attachments of a container, the oldest first.
using ContainerState = std::vector<Attachment>;

/// The content of the file of a container with at least one attachment, and the reverse: nullopt
/// for a torn file. \throws cni::Error: plugins::from_json_text().
std::string text_of(const ContainerState& container);
std::optional<ContainerState> container_from(const std::string& text);

class StateDir {
 public:
  static constexpr const char* kPath = names::kPortmapStateDir;

  /// nullopt if the directory does not exist.
  static std::optional<StateDir> find(const std::string& path = kPath);
  static StateDir create(const std::string& path = kPath);

  /// Conflict until the result is closed. \throws cni::Error(kTryAgainLater).
  netlink::Fd lock() const;

  struct Reading {
    bool exists = false;  ///< the file exists; if unreadable, attachments is empty
    ContainerState attachments;
  };
  /// \throws cni::Error for a file of a later format, and for other JSON.
  Reading read(const std::string& container_hash) const;
  bool has(const std::string& container_hash) const { return dir_.has(container_hash); }
  /// The state of one attachment.
  std::optional<Attachment> find(const Owner& owner) const;
  /// Adds or replaces one attachment of its container; returns its previous state, whose addresses
  /// stay in addresses().
  std::optional<Attachment> put(const Attachment& attachment) const;
  /// Removes one attachment, and with the last one the file. Removes a torn file.
  void remove(const Owner& owner) const;
  /// Removes the file of a container.
  void discard(const std::string& container_hash) const { dir_.remove(container_hash); }
  /// The hashes of all containers, for GC.
  std::vector<std::string> all() const;

  AddressIndex addresses() const { return AddressIndex(dir_); }

  /// Claims of the iptables backend: symbolic links from keys to tags in the directory "claims".
  /// Without it they were lost, or no ADD of this boot has looked for them yet.
  bool has_claims() const { return dir_.has(kClaims); }
  /// Makes the directory, with all of these at once; without any, claim() makes it.
  void make_claims(const std::vector<std::pair<Key, Owner>>& all) const;
  /// The tag of the port owner; empty without one.
  std::string claimant(const Key& key) const;
  void claim(const Key& key, const Owner& owner) const;
  /// False if another attachment owns the key; its claim stays.
  bool release(const Key& key, const Owner& owner) const;
  /// Releases all claims whose tag is stale: lists the directory.
  void release_if(const std::function<bool(const std::string& tag)>& is_stale) const;

 private:
  static constexpr const char* kClaims = "claims";
  explicit StateDir(cni::Dir dir) : dir_(std::move(dir)) {}
  cni::Dir dir_;
};

}  // namespace portmap

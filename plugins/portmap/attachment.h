#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcni/common/attachment.h"
#include "plugins/names/state.h"
#include "plugins/portmap/conf.h"
#include "plugins/portmap/mapping.h"
#include "plugins/state/address_index.h"
#include "plugins/state/state_dir.h"

/// State files: one file per container with mapped ports in /run/cni/portmap,
/// AttachmentKey::container_hash() its name. ADD writes it before the rules, DEL removes it after
/// them. Without the file a container has no port that this plugin mapped, so that DEL needs no
/// request to the kernel.
namespace portmap {

/// The attachment that owns a mapping.
using Owner = cni::AttachmentKey;

/// What names an owner in comments of elements and in links beside the state files: "H1-H2-C" of
/// tag() and container_hash() of AttachmentKey; 50 characters.
class Tag {
 public:
  Tag() = default;  ///< of nobody
  explicit Tag(std::string text) : text_(std::move(text)) {}
  explicit Tag(const Owner& owner);

  const std::string& str() const { return text_; }
  bool empty() const { return text_.empty(); }
  /// AttachmentKey::tag(), by which the pod's veth on the node names its owner.
  std::string of_attachment() const { return text_.substr(0, text_.rfind('-')); }
  /// AttachmentKey::container_hash(); empty for other text.
  std::string container() const;
  /// Whether it is of another attachment of the same container.
  bool is_of_sibling(const Tag& other) const;
  auto operator<=>(const Tag&) const = default;

 private:
  std::string text_;
};

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

  Tag tag() const { return Tag(owner); }
  /// Of its elements: tag() and the names in clear; at most 128 bytes, no double quotes.
  std::string comment() const;
  bool has(Family family) const;                ///< a claim of the family
  const Claim* claim_of(const Key& key) const;  ///< null without one
  std::vector<Ip> targets() const;              ///< the pod's addresses to which claims lead
  bool operator==(const Attachment&) const = default;
};

/// The content of a state file: all attachments of a container, the oldest first.
struct Container {
  static constexpr const char* kDir = names::kPortmapStateDir;

  std::vector<Attachment> attachments;
  bool operator==(const Container&) const = default;

  std::string text() const;
  /// nullopt for a torn file. \throws cni::Error: plugins::from_json_text().
  static std::optional<Container> from(const std::string& text);
};
/// Mappings are changed under its lock().
using StateDir = plugins::StateDir<Container>;

/// None without a file, and of a torn one. \throws as StateDir::read().
std::vector<Attachment> attachments_of(const StateDir& states, const std::string& hash);
std::optional<Attachment> find_attachment(const StateDir& states, const Owner& owner);
/// Adds or replaces one attachment of its container; returns its previous state, whose addresses
/// stay in addresses_in().
std::optional<Attachment> put_attachment(const StateDir& states, const Attachment& attachment);
/// Removes one attachment, and with the last one the file. Removes a torn file.
void remove_attachment(const StateDir& states, const Owner& owner);
/// The hashes of all containers, for GC.
std::vector<std::string> containers_in(const StateDir& states);

/// The tags of the attachments with mappings that lead to an address: links "ip-ADDRESS" beside the
/// state files. A tag is added after the state file, before the rules, and removed after them,
/// before the state file. One too much does no harm: the state file decides.
plugins::AddressIndex addresses_in(const StateDir& states);

}  // namespace portmap

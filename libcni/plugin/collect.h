#pragma once

#include <compare>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/attachment.h"
#include "libcni/common/hash.h"
#include "libcni/plugin/life.h"

namespace cni {

struct Request;

/// A thing of a network that no valid attachment has. With `network` only that it is there.
struct Leftover {
  std::string what;          ///< "lease 10.1.2.9"
  std::string container_id;  ///< empty: unknown, as of an alias that was cut off
  std::string ifname;        ///< empty: unknown
  std::string tag;           ///< OwnerTag::prefix()
  Life life = Life::kDead;   ///< as the plugin sees it
  std::string network = {};  ///< another than GC's that something belongs to
  /// Its owner is what the pod that has it says, who may name another.
  bool is_claim = false;
  auto operator<=>(const Leftover&) const = default;
};

/// The attachment that a tag of the network names, "..., net: NETWORK, if: IFNAME, id: CONTAINER".
/// Empty: it was cut off, or somebody else wrote it.
Attachment owner_in(std::string_view tag, const std::string& network);

nlohmann::ordered_json json_of(const std::vector<Leftover>& found);
/// \throws Error(kDecodingFailure) for another content.
std::vector<Leftover> leftovers_in(const std::string& printed);

/// One run of GC. A plugin asks takes() of each thing that it has, and removes it if the answer is
/// true: of everything that no valid attachment has, as the spec says. Two forms are ours:
/// - A look: the answer is always false, and what would be removed is in found(), with the other
///   networks that something belongs to.
/// - The removal of what a look found dead, which names it by its tags. The answer is true for what
///   is named and dead now, too: found() has that. A pod that was added since is not named.
class Collect {
 public:
  enum class Mode { kGc, kLook, kRemove };
  Collect(const std::string& network, std::vector<Attachment> valid, Mode mode = Mode::kGc,
          const std::vector<std::string>& named = {});
  /// As the runtime asks for it. Empty: it names nothing to keep and nothing to remove.
  /// \throws Error(kInvalidConfig).
  static std::optional<Collect> from(const Request& request);
  /// Whether the runtime waits for found().
  static bool is_answered(const Request& request);

  /// A removal: asked right before it, whether the node still has a sign of life of that owner.
  using Witness = std::function<bool(const Leftover&)>;
  void ask(Witness witness) { witness_ = std::move(witness); }

  /// Whether the tag is one of this network, and of no valid attachment. In a removal: of what
  /// takes() takes.
  bool is_stale(std::string_view tag) const;
  /// Whether GC removes an object with its owner's tag.
  bool takes(const std::string& what, const std::string& tag, Life life = Life::kDead);
  /// The same for an object of an attachment; without ifname, of the whole container.
  bool takes(const std::string& what, const AttachmentKey& owner, Life life = Life::kDead);
  /// The same for an object in the namespace of a pod, which wrote the tag itself.
  bool takes_in_pod(const std::string& what, const std::string& tag);

  bool only_looks() const { return mode_ == Mode::kLook; }
  bool removes_named() const { return mode_ == Mode::kRemove; }
  const std::vector<Attachment>& valid() const { return valid_; }
  /// Whether it is valid; without ifname, whether any interface of the container is.
  bool is_valid(const Attachment& one) const { return valid_set_.contains(one); }
  /// A removal: the tags whose owner the witness does not see. For a delegate.
  std::vector<std::string> named() const;
  const std::vector<Leftover>& found() const { return found_; }
  /// Adds what a delegate found.
  void add(const std::vector<Leftover>& found);

  /// The key of the config with the tags to remove. Then there is no list of valid attachments, and
  /// a plugin that does not know the key removes nothing.
  static constexpr const char* kRemoveKey = "patchbay/remove";

 private:
  bool is_foreign(std::string_view tag) const;
  bool is_named_and_dead(const Leftover& one) const;
  Leftover leftover(const std::string& what, std::string_view tag, Life life) const;
  bool takes_stale(Leftover one);
  void find_other(const std::string& network);
  void add(Leftover one);

  std::string network_;
  std::vector<Attachment> valid_;
  Mode mode_;
  std::set<Attachment> valid_set_;            ///< the same, and each ID without an interface
  std::set<std::string, std::less<>> keep_;   ///< tags
  std::set<std::string, std::less<>> named_;  ///< tags
  Witness witness_;
  std::vector<Leftover> found_;
  std::set<Leftover> known_;  ///< the same
};

}  // namespace cni

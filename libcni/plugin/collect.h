#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/hash.h"
#include "libcni/config/conf.h"

namespace cni {

/// A thing of a network that no valid attachment has. With `network` only that it is there.
struct Leftover {
  std::string what;          ///< "lease 10.1.2.9"
  std::string container_id;  ///< empty: unknown, as of an alias that was cut off
  std::string ifname;        ///< empty: unknown
  std::string tag;           ///< OwnerTag::prefix()
  bool alive = false;        ///< its pod exists, with the interface
  std::string network = {};  ///< another than GC's that something belongs to
  bool operator==(const Leftover&) const = default;
};

nlohmann::ordered_json json_of(const std::vector<Leftover>& found);
/// \throws Error(kDecodingFailure) for another content.
std::vector<Leftover> leftovers_in(const std::string& printed);

/// One run of GC. A plugin asks takes() of each thing that it has, and removes it if the answer is
/// true. With only_look the answer is always false, and what would be removed is in found(), with
/// the other networks that something belongs to.
class Collect {
 public:
  Collect(const std::string& network, std::vector<Attachment> valid, bool only_look = false);

  /// Whether the tag is one of this network, and of no valid attachment.
  bool is_stale(std::string_view tag) const;
  /// Whether GC removes an object with its owner's tag; alive: a pod has it.
  bool takes(const std::string& what, const std::string& tag, bool alive = false);
  /// The same for an object of a network; without ifname, of the whole container.
  bool takes(const std::string& what, const std::string& network, const Attachment& owner,
             bool alive = false);

  bool only_looks() const { return only_look_; }
  const std::vector<Attachment>& valid() const { return valid_; }
  const std::vector<Leftover>& found() const { return found_; }
  /// Adds the leftovers that the IPAM plugin reported.
  void add(const std::vector<Leftover>& found);

 private:
  bool takes_stale(Leftover one);
  void find_other(const std::string& network);

  std::string network_;
  std::vector<Attachment> valid_;
  bool only_look_;
  std::set<std::string, std::less<>> keep_;  ///< tags
  std::vector<Leftover> found_;
};

}  // namespace cni

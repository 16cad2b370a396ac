#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

/// The ResourceSlices of one node and driver as the API server has them, and what to do so that
/// they are as they should be. Pure: no I/O.
namespace devices::dra {

using Json = nlohmann::json;

/// Whose slices: a driver on a node. The pool has the node's name.
struct Publisher {
  std::string driver, node;
};

/// A slice in the API, as far as it is compared.
struct Slice {
  std::string name, uid, version;
  std::string owner;  ///< UID of the Node that it is removed with; "": another owner, or none
  std::string pool = {};
  std::int64_t generation = 0, count = 0;
  std::string digest = {};  ///< digest_of() its content
  bool operator==(const Slice&) const = default;
};

/// A hash of what a slice offers: equal for what the scheduler reads as equal.
std::string digest_of(const Json& content);

/// The spec without driver, pool and node, and without what an API server adds: null, empty lists,
/// and the times of taints.
Json content_of(const Json& object);

/// nullopt: it is another driver's or node's, or no slice. An object is as its server sent it:
/// nothing of it is trusted to have the right type.
std::optional<Slice> own_slice(const Json& object, const Publisher& of);

/// The slices in the API by their names.
using OwnSlices = std::map<std::string, Slice>;

/// The highest generation of the slices, 0 of none. One that nobody reaches by changes does not
/// count.
std::int64_t highest_generation(const OwnSlices& own);

/// The generation as it is remembered: 0 for the last that counts, after which they begin anew with
/// 1, in all instances.
std::int64_t remembered(std::int64_t generation);

/// Whether an event about a slice is older than what is known already.
bool is_older(const std::string& version, const std::string& than);

/// The name of a slice by its place: the scheduler looks at slices in the order of their names.
/// Two instances of the agent have the same names, so that neither doubles the other's slices.
std::string slice_name(const Publisher& of, std::size_t place);

/// What to write and remove, in this order.
struct Plan {
  struct Write {
    std::string name;     ///< of a slice to create or replace
    std::string version;  ///< resourceVersion of the one to replace; "": create it
    std::size_t place;    ///< index of its content
  };
  std::int64_t generation = 0;
  std::vector<Write> writes = {};
  std::vector<Slice> removals = {};
  bool empty() const { return writes.empty() && removals.empty(); }
};

struct Wish {
  Publisher of;
  std::vector<std::string> digests = {};  ///< of the content of each slice
  std::string owner = {};                 ///< UID of the Node; "": not asked for yet, any will do
  std::int64_t generation = 0;            ///< the highest one that was ever seen
};

/// Nothing to do where all slices are right: another instance may have written them. Slices of one
/// generation that are all right so far are completed; else all get the next generation.
Plan plan_of(const OwnSlices& own, const Wish& wish);

/// A ResourceSlice to create, or to replace if the write has a version.
Json object_of(const Plan& plan, const Plan::Write& write, const Wish& wish, const Json& content);

}  // namespace devices::dra

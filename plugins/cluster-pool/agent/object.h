#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/types/ip.h"

/// What agents of all nodes have in the engine (the API server of Kubernetes, or etcd). The name of
/// an object says what it is about, so that creating it is the claim. None is changed but by a node
/// that was renamed.
namespace block_agent {

enum class Kind : std::uint8_t {
  kBlock,    ///< a block of a network, and the node that has it
  kPool,     ///< a subnet of a network, and the size of its blocks
  kShortage  ///< a node that found no free block in a network
};
inline constexpr Kind kKinds[] = {Kind::kBlock, Kind::kPool, Kind::kShortage};

struct Object {
  Kind kind = Kind::kBlock;
  std::string network = {};
  netlink::Cidr cidr = {};    ///< of a block; the subnet of a pool
  unsigned block_size = 0;    ///< of a pool: prefix length
  std::string node = {};      ///< that has it, or made it; "" where the object is unreadable
  std::string machine = {};   ///< machine_id() of that node: two nodes may have one name
  std::string claim = {};     ///< a UUID of this object
  std::uint64_t version = 0;  ///< of the engine, growing; 0: unknown
  std::string misnamed = {};  ///< the object's name, where it is not that of a block: no claim

  /// Whether it is the same claim, whatever its version.
  bool is_claim_of(const Object& other) const {
    return node == other.node && machine == other.machine && claim == other.claim;
  }
  bool operator==(const Object&) const = default;
};

/// The node, or what else has a block, for notes and lists of nodes.
std::string holder_of(const Object& object);

/// What is unique among objects of a kind and network: the first address of a block, the subnet of
/// a pool ("10.1.0.0_16"), the node of a shortage.
std::string place_of(const Object& object);
/// Name of an object of Kubernetes (RFC 1123): "NETWORK.10-1-0-16". A network that is no such name
/// has a hash of it at the end; a hash has no "-", so no two names are equal.
std::string name_of(const Object& object);
/// "blocks", "pools" or "shortages".
const char* folder_of(Kind kind);
/// "blocks/NETWORK/10.1.0.16": a name of a network has no slash.
std::string key_of(const Object& object);

/// What the engine stores: `spec` of an object of Kubernetes, the value of a key of etcd.
nlohmann::ordered_json spec_of(const Object& object);
/// nullopt: it is no object of this kind. Whoever wrote it, each text of it is a name.
std::optional<Object> object_in(Kind kind, const nlohmann::json& spec);
/// The same from text of at most kMaxValue bytes.
std::optional<Object> object_in_text(Kind kind, std::string_view text);
inline constexpr std::size_t kMaxValue = 4096;

/// The name of a node: a DNS subdomain (RFC 1123), as Kubernetes has it.
bool is_node_name(std::string_view text);
inline constexpr const char* kNodePattern = "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$";

/// A random UUID (RFC 9562, version 4). \throws netlink::Error.
std::string new_claim();
/// What is put in the place of a claim by whoever is to release the node: an agent of it that runs
/// puts its own claim there again, and so says that the node lives.
std::string new_question();
bool is_question(const Object& object);

}  // namespace block_agent

#include "plugins/devices/agent/dra/slices/own_slices.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"

namespace devices::dra {

namespace {

using cni::cat;

constexpr std::size_t kMaxName = 253;  // of an object of Kubernetes
constexpr unsigned kDeepest = 16;      // a slice has seven levels
// Nobody gets there by changes: a generation beyond it is a foreign slice's, and does not count.
constexpr std::int64_t kMaxGeneration = std::int64_t{1} << 62;

std::string text_at(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? "" : found->get<std::string>();
}

std::int64_t number_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_number_integer() ? 0 : found->get<std::int64_t>();
}

const Json& part_of(const Json& object, const char* key) {
  static const Json kNone = Json::object();
  if (!object.is_object()) return kNone;
  const auto found = object.find(key);
  return found == object.end() || !found->is_object() ? kNone : *found;
}

bool is_nothing(const Json& value) {
  return value.is_null() || (value.is_structured() && value.empty());
}

// Without null, empty lists and objects, and times of taints.
Json stripped(const Json& value, unsigned depth) {
  if (!value.is_structured()) return value;
  if (depth == kDeepest) return "too deep";
  Json out = value.is_array() ? Json::array() : Json::object();
  if (value.is_array()) {
    for (const Json& one : value) out.push_back(stripped(one, depth + 1));
    return out;
  }
  for (const auto& [key, one] : value.items()) {
    if (key == "timeAdded") continue;
    Json inner = stripped(one, depth + 1);
    if (!is_nothing(inner)) out[key] = std::move(inner);
  }
  return out;
}

// The UID of the only owner, which is a Node.
std::string owner_of(const Json& metadata, const std::string& node) {
  const auto owners = metadata.find("ownerReferences");
  if (owners == metadata.end() || !owners->is_array() || owners->size() != 1) return {};
  const Json& owner = owners->front();
  const bool is_node = text_at(owner, "kind") == "Node" && text_at(owner, "apiVersion") == "v1" &&
                       text_at(owner, "name") == node;
  return is_node ? text_at(owner, "uid") : "";
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

bool is_right(const Slice& slice, const Wish& wish, std::size_t place) {
  return slice.pool == wish.of.node && slice.digest == wish.digests[place] &&
         slice.count == static_cast<std::int64_t>(wish.digests.size()) &&
         (wish.owner.empty() ? !slice.owner.empty() : slice.owner == wish.owner);
}

// An agent has none beyond: another instance would not count it, and both would write in turn.
std::int64_t after(std::int64_t highest, const Wish& wish) {
  return highest < kMaxGeneration ? highest + 1 : remembered(wish.generation) + 1;
}

// The generation that slices are written with: the highest one if nothing of it is wrong so far.
std::int64_t next_generation(const OwnSlices& own, const Wish& wish,
                             const std::vector<std::string>& names) {
  const std::int64_t highest = std::max(wish.generation, highest_generation(own));
  bool is_begun = false;
  for (const auto& [name, slice] : own) {
    if (slice.generation != highest) continue;
    const auto at = std::ranges::find(names, name);
    if (at == names.end()) return after(highest, wish);
    if (!is_right(slice, wish, static_cast<std::size_t>(at - names.begin())))
      return after(highest, wish);
    is_begun = true;
  }
  return is_begun && highest > 0 ? highest : after(highest, wish);
}

}  // namespace

std::string digest_of(const Json& content) {
  return cni::sha512_hex(content.dump(-1, ' ', true, Json::error_handler_t::replace), 32);
}

Json content_of(const Json& object) {
  Json spec = stripped(part_of(object, "spec"), 0);
  for (const char* key : {"driver", "pool", "nodeName"}) spec.erase(key);
  return spec;
}

std::optional<Slice> own_slice(const Json& object, const Publisher& of) {
  const Json& metadata = part_of(object, "metadata");
  const Json& spec = part_of(object, "spec");
  if (text_at(spec, "driver") != of.driver || text_at(spec, "nodeName") != of.node) return {};
  Slice out{.name = text_at(metadata, "name"),
            .uid = text_at(metadata, "uid"),
            .version = text_at(metadata, "resourceVersion"),
            .owner = owner_of(metadata, of.node)};
  if (out.name.empty()) return {};
  const Json& pool = part_of(spec, "pool");
  out.pool = text_at(pool, "name");
  out.generation = number_at(pool, "generation");
  out.count = number_at(pool, "resourceSliceCount");
  out.digest = digest_of(content_of(object));
  return out;
}

std::int64_t highest_generation(const OwnSlices& own) {
  std::int64_t out = 0;
  for (const auto& [name, slice] : own) {
    if (slice.generation <= kMaxGeneration) out = std::max(out, slice.generation);
  }
  return out;
}

std::int64_t remembered(std::int64_t generation) {
  return generation >= kMaxGeneration ? 0 : generation;
}

bool is_older(const std::string& version, const std::string& than) {
  const auto one = number_in(version), other = number_in(than);
  return one && other && *one < *other;
}

std::string slice_name(const Publisher& of, std::size_t place) {
  std::string number = cat(place);
  number.insert(0, number.size() < 3 ? 3 - number.size() : 0, '0');
  const std::string end = cat("-", of.driver, "-", number);
  std::string node = of.node;
  if (node.size() + end.size() > kMaxName) {
    const std::string hash = cni::sha512_hex(node, 8);
    node = cat(node.substr(0, kMaxName - end.size() - hash.size() - 1), "-", hash);
  }
  return cat(node, end);
}

Plan plan_of(const OwnSlices& own, const Wish& wish) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < wish.digests.size(); ++i) names.push_back(slice_name(wish.of, i));
  Plan out{.generation = next_generation(own, wish, names)};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = own.find(names[i]);
    if (found == own.end()) {
      out.writes.push_back({names[i], "", i});
    } else if (found->second.pool != wish.of.node) {
      out.removals.push_back(found->second);  // the name of a pool cannot be changed
    } else if (!is_right(found->second, wish, i) || found->second.generation != out.generation) {
      out.writes.push_back({names[i], found->second.version, i});
    }
  }
  for (const auto& [name, slice] : own) {
    if (std::ranges::find(names, name) == names.end()) out.removals.push_back(slice);
  }
  return out;
}

Json object_of(const Plan& plan, const Plan::Write& write, const Wish& wish, const Json& content) {
  const Json node = {
      {"apiVersion", "v1"}, {"kind", "Node"}, {"name", wish.of.node}, {"uid", wish.owner}};
  Json metadata = {{"name", write.name}, {"ownerReferences", Json::array({node})}};
  if (!write.version.empty()) metadata["resourceVersion"] = write.version;
  Json spec = content;
  spec["driver"] = wish.of.driver;
  spec["nodeName"] = wish.of.node;
  spec["pool"] = {{"name", wish.of.node},
                  {"generation", plan.generation},
                  {"resourceSliceCount", wish.digests.size()}};
  return {{"apiVersion", "resource.k8s.io/v1"},
          {"kind", "ResourceSlice"},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

}  // namespace devices::dra

#include "plugins/cluster-pool/agent/object.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/config/json.h"
#include "libcni/config/names.h"

namespace block_agent {

namespace {

using cni::cat;
using nlohmann::json;

constexpr std::size_t kMaxName = 253;     // of an object of Kubernetes
constexpr std::size_t kMaxNetwork = 128;  // bytes of a readable name; a longer one is hashed
constexpr std::size_t kHash = 20;         // digits
constexpr std::size_t kMaxId = 64;        // of a claim or machine
constexpr std::string_view kQuestion = "release-";

bool is_lower_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// Labels of a DNS subdomain begin and end with a letter or digit.
bool is_subdomain(std::string_view text) {
  char before = '.';
  for (const char c : text) {
    const bool is_edge = before == '.' || c == '.';
    if (!is_lower_alnum(c) && c != '-' && c != '.') return false;
    if (is_edge && (before == '-' || c == '-' || (c == '.' && before == '.'))) return false;
    before = c;
  }
  return is_lower_alnum(before);
}

// Two texts of one length and without ":" and ".": all digits of an IPv6 address.
std::string dashed(const netlink::Ip& ip) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < ip.size(); ++i) {
    const std::uint8_t byte = ip.data()[i];
    if (ip.is_v4()) {
      out += cat(i == 0 ? "" : "-", unsigned{byte});
    } else {
      if (i != 0 && i % 2 == 0) out += '-';
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    }
  }
  return out;
}

std::string dashed_place(const Object& object) {
  if (object.kind == Kind::kShortage) return cat("node-", object.node);
  std::string out = dashed(object.cidr.ip);
  if (object.kind == Kind::kPool) out += cat("-", object.cidr.prefix);
  return out;
}

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool is_id(const std::string& text) { return text.size() <= kMaxId && cni::is_network_name(text); }

}  // namespace

bool is_node_name(std::string_view text) { return text.size() <= kMaxName && is_subdomain(text); }

std::string holder_of(const Object& object) {
  if (!object.misnamed.empty()) return cat("the misnamed object ", object.misnamed);
  return object.node.empty() ? "an unreadable object" : object.node;
}

std::string place_of(const Object& object) {
  if (object.kind == Kind::kShortage) return object.node;
  if (object.kind == Kind::kBlock) return object.cidr.ip.str();
  return cat(object.cidr.ip.str(), "_", object.cidr.prefix);
}

std::string name_of(const Object& object) {
  const std::string place = dashed_place(object);
  // "a" with the node "b.node-c", and "a.node-b" with the node "c".
  const bool is_ambiguous =
      object.kind == Kind::kShortage && object.network.find(".node-") != std::string::npos;
  const bool is_plain = object.network.size() <= kMaxNetwork && is_subdomain(object.network) &&
                        !is_ambiguous && object.network.size() + place.size() + 1 <= kMaxName;
  if (is_plain) return cat(object.network, ".", place);
  std::string shown;
  for (const char c : object.network.substr(0, 32)) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    shown += is_lower_alnum(lower) ? lower : '-';
  }
  const std::string hash = cni::sha512_hex(cat(object.network, "/", place), kHash);
  return cat("n-", shown, "-n.", object.kind == Kind::kShortage ? "node" : place, ".", hash);
}

const char* folder_of(Kind kind) {
  constexpr const char* kFolders[] = {"blocks", "pools", "shortages"};
  return kFolders[static_cast<std::size_t>(kind)];
}

std::string key_of(const Object& object) {
  return cat(folder_of(object.kind), "/", object.network, "/", place_of(object));
}

nlohmann::ordered_json spec_of(const Object& object) {
  nlohmann::ordered_json out = {{"network", object.network}};
  if (object.kind != Kind::kShortage) out["cidr"] = object.cidr.str();
  if (object.kind == Kind::kPool) out["blockSize"] = object.block_size;
  out["node"] = object.node;
  out["machine"] = object.machine;
  out["claim"] = object.claim;
  return out;
}

std::optional<Object> object_in(Kind kind, const json& spec) {
  if (!spec.is_object()) return std::nullopt;
  Object out{.kind = kind,
             .network = text_at(spec, "network"),
             .node = text_at(spec, "node"),
             .machine = text_at(spec, "machine"),
             .claim = text_at(spec, "claim")};
  if (!cni::is_network_name(out.network) || out.network.size() > kMaxName) return std::nullopt;
  if (!is_node_name(out.node) || !is_id(out.machine) || !is_id(out.claim)) return std::nullopt;
  if (kind == Kind::kShortage) return out;
  const auto cidr = netlink::Cidr::parse(text_at(spec, "cidr"));
  if (!cidr || *cidr != cidr->network()) return std::nullopt;
  out.cidr = *cidr;
  if (kind == Kind::kBlock) return out;
  const auto size = spec.find("blockSize");
  if (size == spec.end() || !size->is_number_unsigned()) return std::nullopt;
  const auto prefix = size->get<std::uint64_t>();
  if (prefix < cidr->prefix || prefix > cidr->ip.bits()) return std::nullopt;
  out.block_size = static_cast<unsigned>(prefix);
  return out;
}

std::optional<Object> object_in_text(Kind kind, std::string_view text) {
  if (text.size() > kMaxValue) return std::nullopt;
  return object_in(kind, cni::try_parse_json(text));
}

std::string new_question() { return cat(kQuestion, new_claim()); }

bool is_question(const Object& object) { return object.claim.starts_with(kQuestion); }

std::string new_claim() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw netlink::Error("make a UUID", errno);
  }
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0FU) | 0x40U);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3FU) | 0x80U);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += kDigits[bytes[i] >> 4U];
    out += kDigits[bytes[i] & 15U];
  }
  return out;
}

}  // namespace block_agent

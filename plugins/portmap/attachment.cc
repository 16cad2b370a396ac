#include "plugins/portmap/attachment.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/common/lock.h"
#include "libcni/config/conf.h"
#include "libcni/config/json.h"

namespace portmap {

namespace {

using cni::cat;
using cni::Dir;
using cni::Reader;
using nlohmann::json;

constexpr const char* kClaims = "claims";
constexpr const char* kAside = ".new";

json to_json(const Claim& claim) {
  return json::array({name_of(claim.key.protocol),
                      claim.key.address ? claim.key.address->str() : "", claim.key.port,
                      claim.target.str(), claim.target_port});
}

std::uint16_t port_from(const Reader& place) {
  return static_cast<std::uint16_t>(place.as_int(1, 65535));
}

Claim claim_from(const Reader& place) {
  const auto parts = place.elements();
  if (parts.size() != 5) place.fail("expected a protocol, and two addresses with ports");
  const auto protocol = protocol_from(parts[0].as_string());
  if (!protocol) parts[0].fail("not a protocol");
  const Ip target = parts[3].as_ip();
  Claim claim{{target.family(), *protocol, port_from(parts[2])}, target, port_from(parts[4])};
  if (parts[1].as_string().empty()) return claim;
  claim.key.address = parts[1].as_ip();
  if (claim.key.address->family() != target.family()) parts[1].fail("of another family");
  return claim;
}

json to_json(const Options& options) {
  return {{"snat", options.snat},
          {"masqAll", options.masq_all},
          {"markMasqBit", options.mark_bit},
          {"externalSetMarkChain", options.external_set_mark_chain},
          {"conditionsV4", options.conditions_v4},
          {"conditionsV6", options.conditions_v6}};
}

Options options_from(const Reader& place) {
  return {.snat = place["snat"].as_bool(),
          .masq_all = place["masqAll"].as_bool(),
          .mark_bit = static_cast<unsigned>(place["markMasqBit"].as_int(0, 31)),
          .external_set_mark_chain = place["externalSetMarkChain"].as_string(),
          .conditions_v4 = place["conditionsV4"].as_strings(),
          .conditions_v6 = place["conditionsV6"].as_strings()};
}

json to_json(const PodAddresses& pod) {
  json out = json::array();
  for (const auto& address : {pod.v4, pod.v6}) {
    if (address) out.push_back(address->str());
  }
  return out;
}

PodAddresses pod_from(const Reader& place) {
  PodAddresses out;
  for (const Reader& one : place.elements()) {
    const Cidr address = one.as_cidr();
    (address.ip.is_v4() ? out.v4 : out.v6) = address;
  }
  return out;
}

json to_json(const Attachment& one) {
  json claims = json::array();
  for (const Claim& claim : one.claims) claims.push_back(to_json(claim));
  return {{"network", one.owner.network},
          {"ifname", one.owner.ifname},
          {"netns", one.netns},
          {"netnsInode", one.netns_inode},
          {"backend", name_of(one.backend)},
          {"detected", one.detected},
          {"options", to_json(one.options)},
          {"pod", to_json(one.pod)},
          {"claims", std::move(claims)}};
}

BackendName backend_from(const Reader& place) {
  for (const BackendName one : {BackendName::kNftables, BackendName::kIptables}) {
    if (place.as_string() == name_of(one)) return one;
  }
  place.fail("not a backend");
}

Attachment attachment_from(const Reader& place, const std::string& container_id) {
  Attachment out{.owner = {place["network"].as_string(), container_id, place["ifname"].as_string()},
                 .netns = place["netns"].as_string(),
                 .netns_inode = place["netnsInode"].as_string(),
                 .backend = backend_from(place["backend"]),
                 .detected = place["detected"].as_bool(),
                 .options = options_from(place["options"]),
                 .pod = pod_from(place["pod"]),
                 .claims = {}};
  for (const Reader& claim : place["claims"].elements()) out.claims.push_back(claim_from(claim));
  return out;
}

std::string file_name(const Key& key) {
  return cat(key.family == Family::kIpv4 ? "4-" : "6-", name_of(key.protocol), "-", key.port, "-",
             key.address ? key.address->str() : "any");
}

std::string without_quotes(std::string text) {
  std::erase(text, '"');
  return text;
}

auto of(const Owner& owner) {
  return [&owner](const Attachment& one) { return one.owner == owner; };
}

}  // namespace

bool Attachment::has(Family family) const {
  return std::any_of(claims.begin(), claims.end(),
                     [&](const Claim& claim) { return claim.key.family == family; });
}

const Claim* claim_of(const std::vector<Claim>& claims, const Key& key) {
  const auto found = std::find_if(claims.begin(), claims.end(),
                                  [&](const Claim& claim) { return claim.key == key; });
  return found == claims.end() ? nullptr : &*found;
}

std::string text_of(const ContainerState& container) {
  json attachments = json::array();
  for (const Attachment& one : container) attachments.push_back(to_json(one));
  return json{{"containerID", container.at(0).owner.container_id},
              {"attachments", std::move(attachments)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<ContainerState> container_from(const std::string& text) try {
  const json doc = cni::parse_json(text, "it");
  const Reader root(doc);
  ContainerState out;
  for (const Reader& one : root["attachments"].elements()) {
    out.push_back(attachment_from(one, root["containerID"].as_string()));
  }
  if (out.empty()) return std::nullopt;
  return out;
} catch (const cni::Error&) {
  return std::nullopt;
}

std::string Owner::container_hash() const { return cni::sha512_hex(container_id, 16); }

std::string Owner::tag() const {
  return cat(cni::OwnerTag(network, container_id, ifname).prefix(), "-", container_hash());
}

std::string Owner::comment() const {
  constexpr std::size_t kMaxComment = 128;  // nft's limit for a comment
  std::string out = cat(tag(), ", net: ", without_quotes(network), ", if: ", without_quotes(ifname),
                        ", id: ", without_quotes(container_id));
  if (out.size() > kMaxComment) out.resize(kMaxComment);
  return out;
}

std::string Owner::container_hash_in(const std::string& tag) {
  const auto dash = tag.rfind('-');
  return dash == std::string::npos ? "" : tag.substr(dash + 1);
}

bool Owner::is_another_of(const std::string& other) const {
  return container_hash_in(other) == container_hash() && other != tag();
}

std::string Owner::str() const {
  return cat("container '", container_id, "' (network '", network, "', interface '", ifname, "')");
}

std::optional<StateDir> StateDir::find(const std::string& path) {
  auto dir = Dir::open(path);
  if (!dir) return std::nullopt;
  return StateDir(std::move(*dir));
}

StateDir StateDir::create(const std::string& path) { return StateDir(Dir::create(path)); }

netlink::Fd StateDir::lock() const { return cni::take_lock(dir_); }

StateDir::Reading StateDir::read(const std::string& container_hash) const {
  const auto file = dir_.read(container_hash);
  if (!file) return {};
  auto container = container_from(file->content);
  return {.exists = true, .attachments = container ? std::move(*container) : ContainerState{}};
}

std::optional<Attachment> StateDir::find(const Owner& owner) const {
  const ContainerState container = read(owner.container_hash()).attachments;
  const auto it = std::find_if(container.begin(), container.end(), of(owner));
  if (it == container.end()) return std::nullopt;
  return *it;
}

std::optional<Attachment> StateDir::put(const Attachment& attachment) const {
  const std::string name = attachment.owner.container_hash();
  if (dir_.publish(name, text_of({attachment}))) return std::nullopt;
  std::optional<Attachment> before;
  ContainerState container = read(name).attachments;
  const auto it = std::find_if(container.begin(), container.end(), of(attachment.owner));
  if (it == container.end()) {
    container.push_back(attachment);
  } else {
    before = std::exchange(*it, attachment);
  }
  dir_.replace(name, text_of(container), kAside);
  return before;
}

void StateDir::remove(const Owner& owner) const {
  const std::string name = owner.container_hash();
  ContainerState container = read(name).attachments;
  std::erase_if(container, of(owner));
  if (container.empty()) {
    dir_.remove(name);
  } else {
    dir_.replace(name, text_of(container), kAside);
  }
  dir_.remove(kAside);  // of a process that was killed
  if (const auto claims = dir_.sub(kClaims)) claims->remove(kAside);
}

std::vector<std::string> StateDir::all() const {
  std::vector<std::string> out;
  for (std::string& name : dir_.names()) {
    constexpr std::size_t kHashLength = 16;
    const bool is_hash = name.size() == kHashLength &&
                         name.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (is_hash) out.push_back(std::move(name));
  }
  return out;
}

std::string StateDir::claimant(const Key& key) const {
  const auto claims = dir_.sub(kClaims);
  return claims ? claims->read_link(file_name(key)).value_or("") : "";
}

void StateDir::claim(const Key& key, const Owner& owner) const {
  const Dir claims = dir_.make_sub(kClaims);
  if (claims.make_link(file_name(key), owner.tag())) return;
  claims.replace_link(file_name(key), owner.tag(), kAside);
}

bool StateDir::release(const Key& key, const Owner& owner) const {
  const auto claims = dir_.sub(kClaims);
  if (!claims || claims->read_link(file_name(key)) != owner.tag()) return false;
  return claims->remove(file_name(key));
}

void StateDir::release_if(const std::function<bool(const std::string& tag)>& is_stale) const {
  const auto claims = dir_.sub(kClaims);
  if (!claims) return;
  for (const std::string& name : claims->names()) {
    const std::string tag = claims->read_link(name).value_or("");
    if (tag.empty() || is_stale(tag)) claims->remove(name);
  }
}

}  // namespace portmap

#include "plugins/portmap/attachment.h"

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/common/lock.h"
#include "plugins/state/fields.h"

namespace plugins {

template <>
inline constexpr auto kFields<portmap::Options> =
    std::tuple{Field{"snat", &portmap::Options::snat},
               Field{"masqAll", &portmap::Options::masq_all},
               Field{"markMasqBit", &portmap::Options::mark_bit},
               Field{"externalSetMarkChain", &portmap::Options::external_set_mark_chain},
               Field{"conditionsV4", &portmap::Options::conditions_v4},
               Field{"conditionsV6", &portmap::Options::conditions_v6}};
template <>
inline constexpr auto kFields<portmap::PodAddresses> = std::tuple{
    Field{"ipv4", &portmap::PodAddresses::v4}, Field{"ipv6", &portmap::PodAddresses::v6}};
template <>
inline constexpr auto kFields<portmap::Attachment> =
    std::tuple{Field{"", &portmap::Attachment::owner},
               Field{"netns", &portmap::Attachment::netns},
               Field{"netnsInode", &portmap::Attachment::netns_inode},
               Field{"backend", &portmap::Attachment::backend},
               Field{"detected", &portmap::Attachment::detected},
               Field{"options", &portmap::Attachment::options},
               Field{"pod", &portmap::Attachment::pod},
               Field{"claims", &portmap::Attachment::claims}};

namespace fields {

using portmap::BackendName;
using portmap::Claim;

template <>
json write(const BackendName& backend) {
  return name_of(backend);
}
template <>
BackendName read(const cni::Reader& place) {
  for (const BackendName one : {BackendName::kNftables, BackendName::kIptables}) {
    if (place.as_string() == name_of(one)) return one;
  }
  place.fail("not a backend");
}

// A list: a state file can have hundreds.
template <>
json write(const Claim& claim) {
  return json::array({name_of(claim.key.protocol), write(claim.key.address), claim.key.port,
                      claim.target.str(), claim.target_port});
}
template <>
Claim read(const cni::Reader& place) {
  const auto parts = place.elements();
  if (parts.size() != 5) place.fail("expected a protocol, and two addresses with ports");
  const auto protocol = portmap::protocol_from(parts[0].as_string());
  if (!protocol) parts[0].fail("not a protocol");
  const auto target = read<netlink::Ip>(parts[3]);
  return {{target.family(), *protocol, read<std::uint16_t>(parts[2]),
           read<std::optional<netlink::Ip>>(parts[1])},
          target,
          read<std::uint16_t>(parts[4])};
}

}  // namespace fields

}  // namespace plugins

namespace portmap {

namespace {

using cni::cat;
using cni::Dir;

constexpr const char* kAside = ".new";
constexpr const char* kNewClaims = "claims.new";

std::string file_name(const Key& key) {
  return cat(key.family == Family::kIpv4 ? "4-" : "6-", name_of(key.protocol), "-", key.port, "-",
             key.address ? key.address->str() : "any");
}

std::string without_quotes(std::string text) {
  std::erase(text, '"');
  return text;
}

bool is_valid_claim(const Claim& claim) {
  const auto& address = claim.key.address;
  return claim.key.port != 0 && claim.target_port != 0 &&
         (!address || address->family() == claim.key.family);
}

// Rejects values that the types allow but that ADD never writes.
bool is_valid_attachment(const Attachment& one) {
  constexpr unsigned kMaxMarkBit = 31;
  return one.options.mark_bit <= kMaxMarkBit && (!one.pod.v4 || one.pod.v4->ip.is_v4()) &&
         (!one.pod.v6 || !one.pod.v6->ip.is_v4()) &&
         std::all_of(one.claims.begin(), one.claims.end(), is_valid_claim);
}

// DEL needs no room on a full disk: instead of the file its content is replaced, with blanks at the
// end.
void shorten(const Dir& dir, const std::string& name, std::string text) try {
  dir.replace(name, text, kAside);
} catch (const netlink::Error& e) {
  const auto file = e.error() == ENOSPC ? dir.read(name) : std::nullopt;
  if (!file) throw;
  text.resize(std::max(text.size(), file->content.size()), ' ');
  if (!dir.overwrite(name, text)) throw;
}

// 0.1.0 named the container once, listed the addresses of a pod, and did not say whether the config
// names the backend.
void modernize(nlohmann::json& container) {
  if (!container.is_object() || !container.contains("attachments")) return;
  auto attachments = std::move(container.at("attachments"));
  for (auto& one : attachments) {
    auto pod = nlohmann::json::object();
    for (const auto& address : one.at("pod")) {
      const bool is_v6 = address.get<std::string>().find(':') != std::string::npos;
      pod[is_v6 ? "ipv6" : "ipv4"] = address;
    }
    one.update({{"containerID", container.at("containerID")}, {"detected", false}, {"pod", pod}});
  }
  container = std::move(attachments);
}

// Of a process that was killed.
void discard_new_claims(const Dir& dir) {
  const auto claims = dir.sub(kNewClaims);
  if (!claims) return;
  for (const std::string& name : claims->names()) claims->remove(name);
  dir.remove_dir(kNewClaims);
}

auto of(const Owner& owner) {
  return [&owner](const Attachment& one) { return one.owner == owner; };
}

}  // namespace

bool Attachment::has(Family family) const {
  return std::any_of(claims.begin(), claims.end(),
                     [&](const Claim& claim) { return claim.key.family == family; });
}

std::vector<Ip> Attachment::targets() const {
  std::vector<Ip> out;
  for (const Family family : netlink::kFamilies) {
    if (const auto& address = pod.of(family); address && has(family)) out.push_back(address->ip);
  }
  return out;
}

const Claim* claim_of(const std::vector<Claim>& claims, const Key& key) {
  const auto found = std::find_if(claims.begin(), claims.end(),
                                  [&](const Claim& claim) { return claim.key == key; });
  return found == claims.end() ? nullptr : &*found;
}

std::string text_of(const ContainerState& container) { return plugins::json_text(container); }

std::optional<ContainerState> container_from(const std::string& text) {
  auto out = plugins::from_json_text<ContainerState>(text, modernize);
  if (out && (out->empty() || !std::all_of(out->begin(), out->end(), is_valid_attachment))) {
    plugins::refuse_content("mappings that no ADD makes");
  }
  return out;
}

std::string container_hash(const Owner& owner) { return cni::sha512_hex(owner.container_id, 16); }

std::string tag_of(const Owner& owner) { return cat(owner.tag(), "-", container_hash(owner)); }

std::string element_comment(const Owner& owner) {
  constexpr std::size_t kMaxComment = 128;  // nft's limit for a comment
  const auto& [network, id, ifname] = owner;
  std::string out =
      without_quotes(cat(tag_of(owner), ", net: ", network, ", if: ", ifname, ", id: ", id));
  if (out.size() > kMaxComment) out.resize(kMaxComment);
  return out;
}

std::string container_hash_in(const std::string& tag) {
  const auto dash = tag.rfind('-');
  return dash == std::string::npos ? "" : tag.substr(dash + 1);
}

bool is_of_sibling(const std::string& tag, const Owner& owner) {
  return container_hash_in(tag) == container_hash(owner) && tag != tag_of(owner);
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
  auto container = cni::during(cat("read '", dir_.path(), "/", container_hash, "'"),
                               [&] { return container_from(file->content); });
  return {.exists = true, .attachments = container ? std::move(*container) : ContainerState{}};
}

std::optional<Attachment> StateDir::find(const Owner& owner) const {
  const ContainerState container = read(container_hash(owner)).attachments;
  const auto it = std::find_if(container.begin(), container.end(), of(owner));
  if (it == container.end()) return std::nullopt;
  return *it;
}

std::optional<Attachment> StateDir::put(const Attachment& attachment) const {
  const std::string name = container_hash(attachment.owner);
  std::optional<Attachment> before;
  if (!dir_.publish(name, text_of({attachment}))) {
    ContainerState container = read(name).attachments;
    const auto it = std::find_if(container.begin(), container.end(), of(attachment.owner));
    if (it == container.end()) {
      container.push_back(attachment);
    } else {
      before = std::exchange(*it, attachment);
    }
    dir_.replace(name, text_of(container), kAside);
  }
  for (const Ip& ip : attachment.targets()) addresses().put(ip, tag_of(attachment.owner));
  return before;
}

void StateDir::remove(const Owner& owner) const {
  const std::string name = container_hash(owner);
  ContainerState container = read(name).attachments;
  const auto own = std::find_if(container.begin(), container.end(), of(owner));
  if (own != container.end()) {
    for (const Ip& ip : own->targets()) addresses().remove(ip, tag_of(owner));
    container.erase(own);
  }
  if (container.empty()) {
    dir_.remove(name);
  } else {
    shorten(dir_, name, text_of(container));
  }
  dir_.remove(kAside);  // of a process that was killed
  if (const auto claims = dir_.sub(kClaims)) claims->remove(kAside);
  discard_new_claims(dir_);
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

void StateDir::make_claims(const std::vector<std::pair<Key, Owner>>& all) const {
  if (all.empty()) return;  // claim() makes the directory
  discard_new_claims(dir_);
  try {
    const Dir claims = dir_.make_sub(kNewClaims);
    for (const auto& [key, owner] : all) claims.make_link(file_name(key), tag_of(owner));
    dir_.rename(kNewClaims, kClaims);
  } catch (const netlink::Error&) {
    discard_new_claims(dir_);
    throw;
  }
}

std::string StateDir::claimant(const Key& key) const {
  const auto claims = dir_.sub(kClaims);
  return claims ? claims->read_link(file_name(key)).value_or("") : "";
}

void StateDir::claim(const Key& key, const Owner& owner) const {
  const Dir claims = dir_.make_sub(kClaims);
  if (claims.make_link(file_name(key), tag_of(owner))) return;
  claims.replace_link(file_name(key), tag_of(owner), kAside);
}

bool StateDir::release(const Key& key, const Owner& owner) const {
  const auto claims = dir_.sub(kClaims);
  if (!claims || claims->read_link(file_name(key)) != tag_of(owner)) return false;
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

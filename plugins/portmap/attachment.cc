#include "plugins/portmap/attachment.h"

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "plugins/portmap/port_claims.h"
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
         std::ranges::all_of(one.claims, is_valid_claim);
}

// DEL needs no room on a full disk: instead of the file its content is replaced, with blanks at the
// end.
void shorten(const Dir& dir, const std::string& name, std::string text) try {
  dir.replace(name, text, Dir::kAside);
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

auto of(const Owner& owner) {
  return [&owner](const Attachment& one) { return one.owner == owner; };
}

}  // namespace

std::string Attachment::comment() const {
  constexpr std::size_t kMaxComment = 128;  // nft's limit for a comment
  const auto& [network, id, ifname] = owner;
  std::string out =
      without_quotes(cat(tag().str(), ", net: ", network, ", if: ", ifname, ", id: ", id));
  if (out.size() > kMaxComment) out.resize(kMaxComment);
  return out;
}

bool Attachment::has(Family family) const {
  return std::ranges::any_of(claims,
                             [&](const Claim& claim) { return claim.key.family == family; });
}

std::vector<Ip> Attachment::targets() const {
  std::vector<Ip> out;
  for (const Family family : netlink::kFamilies) {
    if (const auto& address = pod.of(family); address && has(family)) out.push_back(address->ip);
  }
  return out;
}

const Claim* Attachment::claim_of(const Key& key) const {
  const auto found =
      std::ranges::find_if(claims, [&](const Claim& claim) { return claim.key == key; });
  return found == claims.end() ? nullptr : &*found;
}

std::string Container::text() const { return plugins::json_text(attachments); }

std::optional<Container> Container::from(const std::string& text) {
  auto all = plugins::from_json_text<std::vector<Attachment>>(text, {.modernize = modernize});
  if (!all) return std::nullopt;
  if (all->empty() || !std::all_of(all->begin(), all->end(), is_valid_attachment)) {
    plugins::refuse_content("mappings that no ADD makes");
  }
  return Container{*std::move(all)};
}

Tag::Tag(const Owner& owner) : text_(cat(owner.tag(), "-", owner.container_hash())) {}

std::string Tag::container() const {
  const auto dash = text_.rfind('-');
  return dash == std::string::npos ? "" : text_.substr(dash + 1);
}

bool Tag::is_of_sibling(const Tag& other) const {
  return container() == other.container() && *this != other;
}

std::vector<Attachment> attachments_of(const StateDir& states, const std::string& hash) {
  return states.read_file(hash).value_or(Container{}).attachments;
}

std::optional<Attachment> find_attachment(const StateDir& states, const Owner& owner) {
  const auto all = attachments_of(states, owner.container_hash());
  const auto it = std::ranges::find_if(all, of(owner));
  return it == all.end() ? std::nullopt : std::optional(*it);
}

std::optional<Attachment> put_attachment(const StateDir& states, const Attachment& attachment) {
  const std::string name = attachment.owner.container_hash();
  std::optional<Attachment> before;
  if (!states.dir().publish(name, Container{{attachment}}.text())) {
    auto all = attachments_of(states, name);
    const auto it = std::ranges::find_if(all, of(attachment.owner));
    if (it == all.end()) {
      all.push_back(attachment);
    } else {
      before = std::move(*it);
      *it = attachment;
    }
    states.dir().replace(name, Container{std::move(all)}.text(), Dir::kAside);
  }
  for (const Ip& ip : attachment.targets()) {
    addresses_in(states).insert(ip, attachment.tag().str());
  }
  return before;
}

void remove_attachment(const StateDir& states, const Owner& owner) {
  const std::string name = owner.container_hash();
  auto all = attachments_of(states, name);
  const auto own = std::ranges::find_if(all, of(owner));
  if (own != all.end()) {
    for (const Ip& ip : own->targets()) addresses_in(states).erase(ip, Tag(owner).str());
    all.erase(own);
  }
  if (all.empty()) {
    states.dir().remove(name);
  } else {
    shorten(states.dir(), name, Container{std::move(all)}.text());
  }
  states.dir().remove(Dir::kAside);  // of a process that was killed
  PortClaims(states).tidy();
}

std::vector<std::string> containers_in(const StateDir& states) {
  std::vector<std::string> out;
  for (std::string& name : states.dir().names()) {
    constexpr std::size_t kHashLength = 16;
    const bool is_hash = name.size() == kHashLength &&
                         name.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (is_hash) out.push_back(std::move(name));
  }
  return out;
}

plugins::AddressIndex addresses_in(const StateDir& states) {
  return plugins::AddressIndex(states.dir(), "ip-");
}

}  // namespace portmap

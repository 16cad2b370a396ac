#include "libcni/plugin/collect.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcni/config/json.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"

namespace cni {

namespace {

Life life_in(const Reader& one) {
  std::string word;
  one.into("state", word);
  for (const Life life : {Life::kDead, Life::kYoung, Life::kUnseen}) {
    if (word == str(life)) return life;
  }
  bool alive = !word.empty();  // as earlier versions say it, which have no state
  one.into("alive", alive);
  return alive ? Life::kAlive : Life::kDead;
}

bool asks_for_look(const Request& request) {
  bool only_look = false;
  request.reader().into(Repair::kLookKey, only_look);
  return only_look;
}

}  // namespace

Attachment owner_in(std::string_view tag, const std::string& network) {
  constexpr std::string_view kIf = ", if: ", kId = ", id: ";
  const auto ifname = tag.rfind(kIf), id = tag.rfind(kId);
  if (ifname == tag.npos || id == tag.npos || id < ifname) return {};
  const auto start = ifname + kIf.size();
  Attachment out{std::string(tag.substr(id + kId.size())),
                 std::string(tag.substr(start, id - start))};
  const AttachmentKey key{network, out.container_id, out.ifname};
  return tag.starts_with(key.tag()) ? out : Attachment{};
}

nlohmann::ordered_json json_of(const std::vector<Leftover>& found) {
  auto out = nlohmann::ordered_json::array();
  for (const Leftover& one : found) {
    if (!one.network.empty()) {
      out.push_back({{"network", one.network}});
      continue;
    }
    out.push_back({{"what", one.what},
                   {"container", one.container_id},
                   {"ifname", one.ifname},
                   {"tag", one.tag},
                   {"alive", one.life == Life::kAlive},
                   {"state", str(one.life)}});
    if (one.is_claim) out.back()["claim"] = true;
  }
  return out;
}

std::vector<Leftover> leftovers_in(const std::string& printed) {
  const nlohmann::json doc = parse_json(printed, "what GC found");
  std::vector<Leftover> out;
  for (const Reader& one : Reader(doc, Code::kDecodingFailure).elements()) {
    Leftover& into = out.emplace_back();
    one.into("what", into.what);
    one.into("container", into.container_id);
    one.into("ifname", into.ifname);
    one.into("tag", into.tag);
    one.into("network", into.network);
    one.into("claim", into.is_claim);
    into.life = life_in(one);
  }
  return out;
}

Collect::Collect(const std::string& network, std::vector<Attachment> valid, Mode mode,
                 const std::vector<std::string>& named)
    : network_(network), valid_(std::move(valid)), mode_(mode), named_(named.begin(), named.end()) {
  for (const Attachment& one : valid_) {
    valid_set_.insert({one, {one.container_id, ""}});
    keep_.insert(AttachmentKey{network, one.container_id, one.ifname}.tag());
  }
}

std::optional<Collect> Collect::from(const Request& request) {
  auto valid = request.valid_attachments();  // a malformed list removes nothing
  const bool looks = asks_for_look(request);
  if (request.reader().has(kRemoveKey) && !looks) {
    const auto named = request.reader()[kRemoveKey].as_strings();
    return Collect(request.network, valid.value_or(std::vector<Attachment>()), Mode::kRemove,
                   named);
  }
  if (!valid) return std::nullopt;
  return Collect(request.network, *std::move(valid), looks ? Mode::kLook : Mode::kGc);
}

bool Collect::is_answered(const Request& request) {
  return asks_for_look(request) || request.reader().has(kRemoveKey);
}

bool Collect::is_foreign(std::string_view tag) const {
  const OwnerTag any(network_, "", "");
  return !tag.starts_with(any.network_hash + '-') ||
         keep_.contains(tag.substr(0, any.prefix().size()));
}

bool Collect::is_stale(std::string_view tag) const {
  if (is_foreign(tag)) return false;
  return mode_ != Mode::kRemove || is_named_and_dead(leftover("", tag, Life::kDead));
}

bool Collect::is_named_and_dead(const Leftover& one) const {
  return one.life == Life::kDead && named_.contains(one.tag) && !(witness_ && witness_(one));
}

std::vector<std::string> Collect::named() const {
  std::vector<std::string> out;
  for (const std::string& tag : named_) {
    if (!witness_ || !witness_({"", "", "", tag})) out.push_back(tag);
  }
  return out;
}

Leftover Collect::leftover(const std::string& what, std::string_view tag, Life life) const {
  auto [container_id, ifname] = owner_in(tag, network_);
  const auto size = OwnerTag(network_, "", "").prefix().size();
  return {what, std::move(container_id), std::move(ifname), std::string(tag.substr(0, size)), life};
}

bool Collect::takes(const std::string& what, const std::string& tag, Life life) {
  if (only_looks()) find_other(OwnerTag::network_in(tag));
  return !is_foreign(tag) && takes_stale(leftover(what, tag, life));
}

bool Collect::takes(const std::string& what, const AttachmentKey& owner, Life life) {
  if (only_looks()) find_other(owner.network);
  if (owner.network != network_ || is_valid(owner.in_network())) return false;
  return takes_stale({what, owner.container_id, owner.ifname, owner.tag(), life});
}

bool Collect::takes_in_pod(const std::string& what, const std::string& tag) {
  if (only_looks()) find_other(OwnerTag::network_in(tag));
  if (is_foreign(tag)) return false;
  Leftover one = leftover(what, tag, Life::kAlive);
  one.is_claim = true;
  return takes_stale(std::move(one));
}

void Collect::add(const std::vector<Leftover>& found) {
  for (const Leftover& one : found) add(one);
}

void Collect::find_other(const std::string& network) {
  Leftover other;
  other.network = network;
  if (!network.empty() && network != network_) add(std::move(other));
}

bool Collect::takes_stale(Leftover one) {
  if (mode_ == Mode::kGc) return true;
  const bool out = mode_ == Mode::kRemove && is_named_and_dead(one);
  if (out || only_looks()) add(std::move(one));
  return out;
}

// A plan of changes may be made more than once.
void Collect::add(Leftover one) {
  if (known_.insert(one).second) found_.push_back(std::move(one));
}

}  // namespace cni

#include "plugins/cluster-pool/agent/view.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace block_agent {

namespace {

constexpr std::size_t kMaxRemoved = 10'000;

netlink::Ip last_of(const netlink::Cidr& cidr) { return cidr.ip.broadcast(cidr.prefix); }

}  // namespace

const View::Network& View::at(const std::string& network) const {
  static const Network kNone{};
  const auto found = networks_.find(network);
  return found == networks_.end() ? kNone : found->second;
}

// In place, since there may be very many.
std::vector<Object> View::replace(Kind kind, std::deque<Object> objects) {
  std::unordered_set<const Object*> listed;
  if (kind == Kind::kBlock) {
    for (auto& [name, one] : networks_) one.misnamed.clear();
  }
  for (; !objects.empty(); objects.pop_front()) {
    Object& one = objects.front();
    Network& network = networks_[one.network];
    if (!one.misnamed.empty()) {
      std::string name = one.misnamed;
      network.misnamed.insert_or_assign(std::move(name), std::move(one));
      continue;
    }
    Object& there =
        kind == Kind::kBlock ? network.blocks[one.cidr.ip] : network.shortages[one.node];
    if (kind == Kind::kBlock) network.shortest = std::min(network.shortest, one.cidr.prefix);
    there = std::move(one);  // be it older: the engine may have been restored
    listed.insert(&there);
  }
  std::vector<Object> gone;
  for (auto& [name, one] : networks_) {
    const auto is_gone = [&](auto& at) { return !listed.contains(&at.second); };
    if (kind == Kind::kShortage) std::erase_if(one.shortages, is_gone);
    if (kind == Kind::kBlock) {
      std::erase_if(one.blocks, [&](auto& at) {
        const bool out = is_gone(at);
        if (out) gone.push_back(std::move(at.second));
        return out;
      });
    }
    one.removed.clear();
    ++one.changes;
  }
  listed_.insert(kind);
  return gone;
}

void View::put(Object object) {
  Network& network = networks_[object.network];
  if (!object.misnamed.empty()) {
    network.misnamed.insert_or_assign(object.misnamed, object);
    ++network.changes;
    return;
  }
  const auto removed = network.removed.find(key_of(object));
  if (removed != network.removed.end() && object.version <= removed->second) return;
  const auto put_in = [&](auto& objects, const auto& key) {
    Object& there = objects.try_emplace(key).first->second;
    if (object.version < there.version) return;
    if (object.kind == Kind::kBlock) {
      network.shortest = std::min(network.shortest, object.cidr.prefix);
    }
    there = std::move(object);
    ++network.changes;
  };
  if (object.kind == Kind::kBlock) return put_in(network.blocks, object.cidr.ip);
  if (object.kind == Kind::kShortage) put_in(network.shortages, object.node);
}

void View::erase(const Object& object) {
  Network& network = networks_[object.network];
  network.changes += network.misnamed.erase(object.misnamed);
  if (!object.misnamed.empty()) return;
  const auto erase_in = [&](auto& objects, const auto& key) {
    const auto found = objects.find(key);
    if (found != objects.end() && object.version < found->second.version) return;
    if (found != objects.end()) objects.erase(found);
    if (network.removed.size() >= kMaxRemoved) network.removed.clear();
    network.removed[key_of(object)] = object.version;
    ++network.changes;
  };
  if (object.kind == Kind::kBlock) erase_in(network.blocks, object.cidr.ip);
  if (object.kind == Kind::kShortage) erase_in(network.shortages, object.node);
}

void View::erase_claim(const Object& object) {
  const auto erase_found = [&](const auto& objects, const auto& key) {
    const auto found = objects.find(key);
    if (found == objects.end() || !found->second.is_claim_of(object)) return;
    const bool is_later = object.version != 0 && found->second.version > object.version;
    if (!is_later) erase(Object(found->second));
  };
  if (object.kind == Kind::kBlock) erase_found(blocks(object.network), object.cidr.ip);
  if (object.kind == Kind::kShortage) erase_found(shortages(object.network), object.node);
}

const View::Blocks& View::blocks(const std::string& network) const { return at(network).blocks; }
const View::Shortages& View::shortages(const std::string& network) const {
  return at(network).shortages;
}
std::uint64_t View::changes(const std::string& network) const { return at(network).changes; }

const Object* View::around(const Network& network, const netlink::Cidr& cidr) {
  for (unsigned prefix = cidr.prefix + 1; prefix-- > network.shortest;) {
    const auto found = network.blocks.find(netlink::Cidr{cidr.ip, prefix}.network().ip);
    if (found != network.blocks.end() && found->second.cidr.prefix <= prefix) return &found->second;
  }
  return nullptr;
}

// One begins in cidr, or has it in its network. Objects that a person made may have one another's
// addresses, so the block before cidr is not all that can be.
const Object* View::overlapping(const std::string& network, const netlink::Cidr& cidr) const {
  const Blocks& all = blocks(network);
  const auto in = all.lower_bound(cidr.ip);
  if (in != all.end() && in->first.family() == cidr.ip.family() && in->first <= last_of(cidr)) {
    return &in->second;
  }
  if (const Object* const one = around(at(network), cidr)) return one;
  for (const auto& [name, one] : at(network).misnamed) {
    if (one.cidr.contains(cidr.ip) || cidr.contains(one.cidr.ip)) return &one;
  }
  return nullptr;
}

std::vector<Object> View::blocks_of(const std::string& node) const {
  std::vector<Object> out;
  for (const auto& [name, network] : networks_) {
    for (const auto& [first, one] : network.blocks) {
      if (one.node == node) out.push_back(one);
    }
  }
  return out;
}

std::set<std::string> View::nodes() const {
  std::set<std::string> out;
  for (const auto& [name, network] : networks_) {
    for (const auto& [first, one] : network.blocks) {
      if (!one.node.empty()) out.insert(one.node);
    }
  }
  return out;
}

}  // namespace block_agent

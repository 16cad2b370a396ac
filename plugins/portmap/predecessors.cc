#include "plugins/portmap/predecessors.h"

#include <algorithm>
#include <exception>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "plugins/portmap/conflict.h"
#include "plugins/portmap/flush.h"
#include "plugins/portmap/ports.h"

namespace portmap {

namespace {

using cni::cat;

/// What the state files say of a tag.
struct Record {
  bool is_readable = true;
  std::optional<Attachment> attachment;
};

Record record_of(const StateDir& state, const Tag& tag) try {
  const std::string file = tag.container();
  auto all = attachments_of(state, file);
  const auto found =
      std::ranges::find_if(all, [&](const Attachment& one) { return one.tag() == tag; });
  if (found != all.end()) return {.is_readable = true, .attachment = std::move(*found)};
  return {.is_readable = !all.empty() || !state.dir().has_file(file), .attachment = {}};
} catch (const std::exception&) {  // of a later format, as after a downgrade
  return {.is_readable = false, .attachment = {}};
}

// Two containers cannot have one interface: the later one has it.
bool is_replaced_by(const Attachment& one, const Attachment& next) {
  return one.owner.container_id != next.owner.container_id &&
         one.owner.ifname == next.owner.ifname && !next.netns_inode.empty() &&
         one.netns_inode == next.netns_inode;
}

// What cannot be told may live.
bool is_gone(const Attachment& one, const Attachment& next) try {
  return is_replaced_by(one, next) || !owner_exists(one);
} catch (const std::exception& e) {
  cni::note(cat("look for ", one.owner.as_owner(), ": ", e.what()));
  return false;
}

std::vector<Ip> addresses_of(const PodAddresses& pod) {
  std::vector<Ip> out;
  for (const Family family : netlink::kFamilies) {
    if (const auto& address = pod.of(family)) out.push_back(address->ip);
  }
  return out;
}

void unmap_at(const Context& context, const Ip& ip, const Attachment& next) {
  const plugins::AddressIndex index = addresses_in(*context.state);
  for (const std::string& line : index.lines(ip)) {
    const Tag tag(line);
    if (tag == next.tag()) continue;
    const auto [is_readable, one] = record_of(*context.state, tag);
    if (!is_readable) continue;
    if (!one) {
      index.erase(ip, line);
    } else if (is_gone(*one, next)) {
      const auto& owner = one->owner;
      const auto gone =
          cni::during(cat("remove hostPorts of ", owner.as_owner(), ", which had ", ip.str()),
                      [&] { return unmap_locked(context, owner, {}); });
      if (context.socket != nullptr) flush_redirected(*context.socket, gone);
    }
  }
}

}  // namespace

void unmap_predecessors(const Context& context, const Attachment& attachment) {
  for (const Ip& ip : addresses_of(attachment.pod)) unmap_at(context, ip, attachment);
}

void unmap_predecessors(const Attachment& attachment) {
  const auto state = StateDir::find();
  if (!state) return;
  const auto addresses = addresses_of(attachment.pod);
  const bool has_any = std::ranges::any_of(
      addresses, [&](const Ip& ip) { return !addresses_in(*state).lines(ip).empty(); });
  if (!has_any) return;
  auto socket = netlink::nf::NfSocket::find();
  const netlink::Fd lock = state->lock();
  unmap_predecessors({socket ? &*socket : nullptr, &*state}, attachment);
}

void forget_addresses(const StateDir& state, const std::function<bool(const Tag&)>& is_stale) {
  addresses_in(state).erase_if([&](const std::string& line) {
    const Tag tag(line);
    if (is_stale(tag)) return true;
    const Record record = record_of(state, tag);
    return record.is_readable && !record.attachment;
  });
}

}  // namespace portmap

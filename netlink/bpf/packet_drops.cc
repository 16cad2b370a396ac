#include "netlink/bpf/packet_drops.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "netlink/bpf/drop_event.h"
#include "netlink/bpf/drop_program.h"
#include "netlink/bpf/kernel_symbols.h"
#include "netlink/types/error.h"

namespace netlink::bpf {

namespace {

constexpr std::size_t kMaxEvents = 50'000, kMaxAddresses = 4096;

DropFilter compiled(const PacketFilter& filter) {
  std::array<std::uint8_t, 4> mask{}, value{};
  const std::size_t begin = filter.offset % 4;
  const std::size_t size = std::min(filter.value.size(), mask.size() - begin);
  std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(begin), size, std::uint8_t{0xff});
  std::copy_n(filter.value.begin(), size, value.begin() + static_cast<std::ptrdiff_t>(begin));
  DropFilter out{.protocol = filter.protocol, .word = filter.offset / 4, .mask = 0, .value = 0};
  std::memcpy(&out.mask, mask.data(), sizeof out.mask);
  std::memcpy(&out.value, value.data(), sizeof out.value);
  return out;
}

// Under lockdown the verifier does not know the function, as if the kernel were without it.
void load(Object& object) try { object.load(); } catch (const Error& e) {
  const std::string& text = e.kernel_text();
  const bool is_locked = text.find("cannot use helper bpf_probe_read") != std::string::npos ||
                         text.find("unknown func bpf_probe_read") != std::string::npos;
  if (!is_locked) throw;
  throw Error(cat(e.operation(), " (the kernel's lockdown is \"confidentiality\")"), EPERM);
}

Object loaded(const std::vector<PacketFilter>& filters, const std::vector<Ip>& addresses,
              const EnumNames& names) {
  DropConstants constants{};
  constants.has_reason = names.knows("skb_drop_reason") ? 1 : 0;
  constants.has_addresses = addresses.empty() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(filters.size(), std::size(constants.filters)); ++i) {
    constants.filters[i] = compiled(filters[i]);
  }
  Object out("drops", drop_program::object());
  out.set_constants(std::as_bytes(std::span(&constants, 1)));
  load(out);
  const int map = out.map("addresses");
  for (std::size_t i = 0; i < std::min(addresses.size(), kMaxAddresses); ++i) {
    std::array<std::byte, 16> key{};
    std::memcpy(key.data(), addresses[i].data(), addresses[i].size());
    put(map, key, std::array{std::byte{1}});
  }
  return out;
}

PacketDrop decoded(const DropEvent& event) {
  PacketDrop out{.link = {event.name, ::strnlen(event.name, sizeof event.name)},
                 .link_index = static_cast<int>(event.link),
                 .netns = event.netns,
                 .protocol = static_cast<std::uint16_t>(event.protocol)};
  const std::size_t size = event.protocol == ETH_P_ARP ? 28 : event.protocol == ETH_P_IP ? 20 : 40;
  out.network.assign(event.network, event.network + size);
  if (event.protocol == ETH_P_IP) out.network[0] = 0x45;  // without options
  if (event.protocol != ETH_P_ARP) {
    out.transport.assign(event.transport, event.transport + sizeof event.transport);
  }
  return out;
}

}  // namespace

PacketDrops::PacketDrops(const std::vector<PacketFilter>& filters, const std::vector<Ip>& addresses)
    : object_(loaded(filters, addresses, names_)),
      attached_(object_.attach("report")),
      ring_(object_.map("events"), [this](std::span<const std::byte> event) {
        if (event.size() != sizeof(DropEvent) || events_.size() >= kMaxEvents) return;
        const auto* const bytes = reinterpret_cast<const std::uint8_t*>(event.data());
        events_.emplace_back(bytes, bytes + event.size());
      }) {}

std::string PacketDrops::reason_of(std::uint32_t value) const {
  constexpr std::string_view kPrefix = "SKB_DROP_REASON_";
  const auto without = [](const std::string& name, std::string_view prefix) {
    return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  };
  const std::uint32_t subsystem = value >> 16;
  if (value == 0) return {};
  if (subsystem == 0) {
    const auto name = names_.name_of("skb_drop_reason", value);
    return name ? without(*name, kPrefix) : cat("reason ", value);
  }
  const auto name = names_.name_of("skb_drop_reason_subsys", subsystem);
  std::string module = name ? without(*name, "SKB_DROP_REASON_SUBSYS_") : cat(subsystem);
  const std::string otherwise = cat(module, " ", value & 0xffff);
  std::ranges::transform(module, module.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return names_.name_in(module, "_drop_reason", value).value_or(otherwise);
}

std::vector<PacketDrop> PacketDrops::take() {
  ring_.read();
  std::vector<std::uint64_t> places;
  std::vector<PacketDrop> out;
  std::map<std::uint32_t, std::string> reasons;
  for (const Bytes& bytes : std::exchange(events_, {})) {
    DropEvent event{};
    std::memcpy(&event, bytes.data(), sizeof event);
    out.push_back(decoded(event));
    const auto [reason, is_new] = reasons.try_emplace(event.reason);
    if (is_new) reason->second = reason_of(event.reason);
    out.back().reason = reason->second;
    places.push_back(event.location);
  }
  if (out.empty()) return out;
  const auto symbols = kernel_symbols(places);
  for (std::size_t i = 0; i < out.size(); ++i) out[i].symbol = symbols.at(places[i]);
  return out;
}

}  // namespace netlink::bpf

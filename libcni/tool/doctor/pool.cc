#include "libcni/tool/doctor/pool.h"

#include "libcni/common/dir.h"

namespace tool::doctor {

namespace {

using cni::Reader;
using netlink::Cidr;
using netlink::Ip;

std::optional<Ip> ip_at(const Reader& place, const char* key) {
  std::optional<Ip> out;
  place.into(key, out);
  return out;
}

// The defaults are host-local's.
Span span_in(const Reader& place) {
  const Cidr subnet = place["subnet"].as_cidr().network();
  const Ip first = subnet.ip.next().value_or(subnet.ip);
  const Ip broadcast = subnet.ip.broadcast(subnet.prefix);
  const Ip last = subnet.ip.is_v4() ? broadcast.prev().value_or(broadcast) : broadcast;
  return {.subnet = subnet,
          .start = ip_at(place, "rangeStart").value_or(first),
          .end = ip_at(place, "rangeEnd").value_or(last),
          .gateway = ip_at(place, "gateway").value_or(first)};
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

std::uint64_t Span::size() const {
  const bool has_gateway = gateway && contains(*gateway);
  return has_gateway ? netlink::count_but_one(start, end) : netlink::count(start, end);
}

std::vector<std::vector<Span>> sets_in(const Reader& ipam) {
  std::vector<std::vector<Span>> out;
  std::string subnet;
  ipam.into("subnet", subnet);
  if (!subnet.empty()) out.push_back({span_in(ipam)});
  for (const Reader& set : ipam["ranges"].elements()) {
    auto& spans = out.emplace_back();
    for (const Reader& span : set.elements()) spans.push_back(span_in(span));
  }
  return out;
}

std::vector<Reservation> reservations_in(const std::string& path) {
  std::vector<Reservation> out;
  const auto dir = cni::Dir::open(path);
  if (!dir) return out;
  for (const std::string& name : dir->names()) {
    const auto ip = Ip::parse(name);
    const auto file = ip ? dir->read(name) : std::nullopt;
    if (!file) continue;
    // ID CR LF IFNAME, as the reference writes it on every system.
    const std::string_view text = file->content;
    const auto end = text.find("\r\n");
    const auto rest = end == text.npos ? std::string_view() : text.substr(end + 2);
    out.push_back({*ip, std::string(trimmed(text.substr(0, end))), std::string(trimmed(rest))});
  }
  return out;
}

}  // namespace tool::doctor

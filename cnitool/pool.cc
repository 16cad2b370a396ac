#include "cnitool/pool.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/delegate.h"
#include "cnitool/find_by.h"
#include "cnitool/json_at.h"
#include "cnitool/known_plugins.h"
#include "libcni/common/dir.h"
#include "libcni/config/pod_cidr.h"
#include "plugins/names/state.h"
#include "plugins/state/lease.h"

namespace tool {

namespace {

using cni::Reader;
using netlink::Ip;

std::optional<Ip> ip_at(const Reader& place, const char* key) {
  std::optional<Ip> out;
  place.into(key, out);
  return out;
}

netlink::Cidr subnet_in(const Reader& place, const std::string& pod_cidr_file) {
  const auto family = cni::pod_cidr_family(place.as_string());
  return family ? cni::pod_cidr_in(pod_cidr_file, *family) : place.as_cidr().network();
}

cni::AddressRange range_in(const Reader& place, const std::string& pod_cidr_file) {
  return cni::AddressRange::make(subnet_in(place["subnet"], pod_cidr_file),
                                 ip_at(place, "rangeStart"), ip_at(place, "rangeEnd"),
                                 ip_at(place, "gateway"));
}

}  // namespace

std::vector<cni::RangeSet> sets_in(const Reader& ipam) {
  std::vector<cni::RangeSet> out;
  std::string subnet, file;
  ipam.into("subnet", subnet);
  ipam.into("podCidrFile", file);
  if (!subnet.empty()) out.push_back({{range_in(ipam, file)}});
  for (const Reader& set : ipam["ranges"].elements()) {
    auto& ranges = out.emplace_back().ranges;
    for (const Reader& range : set.elements()) ranges.push_back(range_in(range, file));
  }
  return out;
}

std::vector<Reservation> reservations_in(const std::string& path) {
  std::vector<Reservation> out;
  const auto dir = cni::Dir::open(path);
  if (!dir) return out;
  for (const std::string& name : dir->names()) {
    const auto ip = leases::ip_of(name);
    const auto file = ip ? dir->read(name) : std::nullopt;
    if (!file) continue;
    auto [id, ifname] = leases::lines_of(file->content);
    out.push_back({*ip, std::move(id), std::move(ifname)});
  }
  return out;
}

std::vector<Pool> pools_of(const cni::NetworkList& list) {
  std::vector<Pool> out;
  for (const cni::PluginConf& named : list.plugins) {
    const cni::PluginConf plugin = effective(named);
    if (!facts_of(ipam_type_of(plugin)).has(cni::Fact::kRanges)) continue;
    try {
      const cni::Reader ipam = cni::Reader(plugin.conf)["ipam"];
      std::string dir;
      ipam.into("dataDir", dir);
      dir = cni::cat(dir.empty() ? names::kHostLocalDataDir : dir, "/", list.name);
      out.push_back(
          {list.name, list.file, dir, sets_in(ipam), reservations_in(dir), ipam_type_of(plugin)});
    } catch (const cni::Error&) {
      continue;  // STATUS says what is wrong with it
    }
  }
  return out;
}

std::vector<Pool> other_pools(const std::vector<Pool>& pools, const cni::Networks& networks) {
  std::set<std::string> bases;
  for (const Pool& pool : pools) bases.insert(pool.dir.substr(0, pool.dir.rfind('/')));
  std::vector<Pool> out;
  std::error_code ignored;
  for (const std::string& base : bases) {
    const auto all = cni::Dir::open(base);
    for (const std::string& name : all ? all->names() : std::vector<std::string>()) {
      if (find_by(networks.lists, &cni::NetworkList::name, name) != nullptr) continue;
      const std::string dir = cni::cat(base, "/", name);
      if (std::filesystem::is_directory(dir, ignored))
        out.push_back({name, "", dir, {}, reservations_in(dir)});
    }
  }
  return out;
}

std::uint64_t used_of(const Pool& pool, const cni::RangeSet& set) {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      pool.reservations, [&](const Reservation& one) { return set.find(one.ip) != nullptr; }));
}

std::vector<std::string> subnets_in(const cni::RangeSet& set) {
  std::vector<std::string> out;
  for (const auto& range : set.ranges) out.push_back(range.subnet.str());
  return out;
}

const nlohmann::json* plugin_with(cni::Fact fact, const cni::NetworkList& list) {
  for (const cni::PluginConf& one : list.plugins) {
    if (facts_of(one.type).has(fact) && one.conf->is_object()) return &*one.conf;
  }
  return nullptr;
}

std::string ipam_type_of(const cni::PluginConf& plugin) {
  const nlohmann::json* const ipam = member(plugin.conf, "ipam");
  return ipam == nullptr ? "" : text_at(*ipam, "type");
}

}  // namespace tool

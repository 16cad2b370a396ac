#include "cnitool/pool.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/delegate.h"
#include "cnitool/find_by.h"
#include "cnitool/given_addresses.h"
#include "cnitool/json_at.h"
#include "cnitool/known_plugins.h"
#include "libcni/common/dir.h"
#include "plugins/names/state.h"
#include "plugins/state/lease.h"

namespace tool {

namespace {

using cni::Reader;

}  // namespace

std::vector<cni::RangeSet> sets_in(const Reader& ipam) {
  std::vector<cni::RangeSet> out;
  std::string subnet, file, type;
  ipam.into("subnet", subnet);
  ipam.into("podCidrFile", file);
  ipam.into("type", type);
  if (!subnet.empty()) out.push_back({ranges_at(ipam, type, file)});
  for (const Reader& set : ipam["ranges"].elements()) {
    auto& ranges = out.emplace_back().ranges;
    for (const Reader& range : set.elements()) {
      std::ranges::move(ranges_at(range, type, file), std::back_inserter(ranges));
    }
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
  for (const auto& range : set.ranges) {
    std::string subnet = range.subnet.str();
    if (std::ranges::find(out, subnet) == out.end()) out.push_back(std::move(subnet));
  }
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

#include "cnitool/given_addresses.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "cnitool/json_at.h"
#include "libcni/common/error.h"
#include "libcni/config/names.h"
#include "libcni/config/pod_cidr.h"
#include "netlink/types/error.h"
#include "plugins/names/state.h"

namespace tool {

namespace {

using cni::AddressRange;
using cni::cat;
using cni::Reader;
using netlink::Cidr;
using netlink::Ip;
using nlohmann::json;

constexpr const char* kClusterPool = "cluster-pool";
constexpr const char* kWhereabouts = "whereabouts";

std::optional<Ip> ip_at(const Reader& place, const char* key) {
  std::optional<Ip> out;
  place.into(key, out);
  return out;
}

Cidr subnet_in(const Reader& place, const std::string& pod_cidr_file) {
  const auto family = cni::pod_cidr_family(place.as_string());
  return family ? cni::pod_cidr_in(pod_cidr_file, *family) : place.as_cidr().network();
}

std::optional<Cidr> network_of(const std::string& text) {
  if (const auto ip = Ip::parse(text)) return Cidr{*ip, ip->bits()};
  const auto cidr = Cidr::parse(text);
  return cidr ? std::optional(cidr->network()) : std::nullopt;
}

std::vector<AddressRange> without(const AddressRange& whole, const Cidr& excluded) {
  const Ip first = excluded.ip, last = excluded.ip.broadcast(excluded.prefix);
  const bool is_beside = last < whole.start || whole.end < first;
  if (is_beside || first.family() != whole.start.family()) return {whole};
  std::vector<AddressRange> out;
  if (whole.start < first) out.push_back({whole.subnet, whole.start, *first.prev(), whole.gateway});
  if (last < whole.end) out.push_back({whole.subnet, *last.next(), whole.end, whole.gateway});
  return out;
}

std::vector<Cidr> networks_of(const std::vector<std::string>& texts) {
  std::vector<Cidr> out;
  for (const std::string& text : texts) {
    if (const auto one = network_of(text)) out.push_back(*one);
  }
  return out;
}

/// Runs of a network's addresses, by their key.
class Collector {
 public:
  Collector(const json& ipam, std::string type) : ipam_(ipam), type_(std::move(type)) {}

  void add_ranges() {
    if (!text_at(ipam_, "subnet").empty()) add_ranges_at(ipam_, "ipam");
    each(ipam_, "ranges", "ipam", [this](const json& set, const std::string& at) {
      if (!set.is_array()) return;
      for (std::size_t i = 0; i < set.size(); ++i) add_ranges_at(set[i], cat(at, "[", i, "]"));
    });
  }

  void add_addresses() {
    each(ipam_, "addresses", "ipam", [this](const json& one, const std::string& at) {
      const auto cidr = Cidr::parse(text_at(one, "address"));
      if (!cidr) return;
      out_.push_back(
          {cat(at, ".address"), {cidr->network(), cidr->ip, cidr->ip, Ip::any(cidr->ip.family())}});
    });
  }

  // Its README: "range" is a CIDR with or without host bits, or FIRST-LAST/LENGTH.
  void add_whereabouts() {
    add_whereabouts_at(ipam_, "ipam");
    each(ipam_, "ipRanges", "ipam",
         [this](const json& one, const std::string& at) { add_whereabouts_at(one, at); });
    add_addresses();
  }

  std::vector<Given> take() { return std::move(out_); }

 private:
  template <class Fn>
  static void each(const json& object, const char* key, const std::string& at, Fn&& fn) {
    const json* const list = member(object, key);
    if (list == nullptr || !list->is_array()) return;
    for (std::size_t i = 0; i < list->size(); ++i) {
      fn((*list)[i], cat(at, ".", key, "[", i, "]"));
    }
  }

  // A place that is wrong, or whose file does not exist yet, gives nothing.
  void add_ranges_at(const json& place, const std::string& path) try {
    if (!place.is_object() || member(place, "subnet") == nullptr) return;
    for (const AddressRange& one : ranges_at(Reader(place), type_, text_at(ipam_, "podCidrFile"))) {
      out_.push_back({cat(path, ".subnet"), one});
    }
  } catch (const cni::Error&) {
  } catch (const netlink::Error&) {
  }

  void add_whereabouts_at(const json& place, const std::string& path) {
    const std::string text = text_at(place, "range");
    const auto dash = text.find('-');
    const auto cidr = Cidr::parse(dash == text.npos ? text : text.substr(dash + 1));
    if (!cidr) return;
    auto first = Ip::parse(text_at(place, "range_start"));
    auto last = Ip::parse(text_at(place, "range_end"));
    if (dash != text.npos) {
      first = Ip::parse(text.substr(0, dash));
      last = cidr->ip;
    }
    const Cidr subnet = cidr->network();
    const auto gateway = Ip::parse(text_at(place, "gateway"));
    try {
      const auto whole =
          AddressRange::make(subnet, first, last, gateway ? *gateway : std::optional(subnet.ip));
      const auto exclude = networks_of(strings_at(place, "exclude"));
      for (const AddressRange& one : runs_without(whole, exclude)) {
        out_.push_back({cat(path, ".range"), one});
      }
    } catch (const cni::Error&) {  // a range of another version of it
    }
  }

  const json& ipam_;
  const std::string type_;
  std::vector<Given> out_;
};

}  // namespace

std::vector<AddressRange> ranges_at(const Reader& place, const std::string& type,
                                    const std::string& pod_cidr_file) {
  const auto whole =
      AddressRange::make(subnet_in(place["subnet"], pod_cidr_file), ip_at(place, "rangeStart"),
                         ip_at(place, "rangeEnd"), ip_at(place, "gateway"));
  if (!cni::stands_for(type, kClusterPool)) return {whole};
  return runs_without(whole, networks_of(strings_at(place.json(), "exclude")));
}

std::vector<AddressRange> runs_without(const AddressRange& whole,
                                       const std::vector<Cidr>& exclude) {
  std::vector<AddressRange> out{whole};
  for (const Cidr& excluded : exclude) {
    std::vector<AddressRange> rest;
    for (const AddressRange& one : out) {
      std::ranges::copy(without(one, excluded), std::back_inserter(rest));
    }
    out = std::move(rest);
  }
  return out;
}

GivenAddresses given_by(const json& conf, const std::string& network, cni::Facts facts) {
  GivenAddresses out;
  const json* const ipam = conf.is_object() ? member(conf, "ipam") : nullptr;
  if (ipam == nullptr || !ipam->is_object()) return out;
  out.type = text_at(*ipam, "type");
  Collector all(*ipam, out.type);
  if (facts.has(cni::Fact::kAddresses)) {
    all.add_addresses();
  } else if (facts.has(cni::Fact::kRanges)) {
    out.store = cat(text_at(*ipam, "dataDir", names::kHostLocalDataDir), "/", network);
    all.add_ranges();
  } else if (cni::stands_for(out.type, kWhereabouts)) {
    out.store = kWhereabouts;  // it keeps those of all its networks apart
    all.add_whereabouts();
  }
  out.all = all.take();
  return out;
}

}  // namespace tool

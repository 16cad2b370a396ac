#include "cnitool/attachments.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cnitool/cached.h"
#include "cnitool/find_by.h"
#include "libcni/runtime/liveness.h"

namespace tool {

namespace {

using cni::CachedAttachment;
using cni::Liveness;
using nlohmann::ordered_json;

// An ADD that did not come to its end has no result: killed in the middle of it, or going on.
Cell state_of(const CachedAttachment& one) {
  if (one.result->is_null()) return {"unfinished", Colour::kYellow};
  const Liveness liveness = cni::liveness_of(one.netns, one.key.ifname);
  const Colour colour = liveness == Liveness::kAlive     ? Colour::kGreen
                        : liveness == Liveness::kUnknown ? Colour::kYellow
                                                         : Colour::kRed;
  return {std::string(str(liveness)), colour};
}

// "10.0.0.2/8".
std::vector<std::string> addresses_of(const CachedAttachment& one) {
  std::vector<std::string> out;
  for (const auto& ip : result_of(one).ips) out.push_back(ip.cidr.str());
  return out;
}

// "10.0.0.2/8,10.9.0.2/24 (net1)": a chain can give the pod more interfaces than its own.
std::string address_text(const CachedAttachment& one) {
  const cni::Result result = result_of(one);
  std::vector<std::string> out;
  for (const cni::Address& ip : result.ips) {
    const std::string name = ip.interface && *ip.interface < result.interfaces.size()
                                 ? result.interfaces[*ip.interface].name
                                 : one.key.ifname;
    out.push_back(ip.cidr.str() + (name == one.key.ifname ? "" : cat(" (", name, ")")));
  }
  return out.empty() ? "-" : joined(out, ",");
}

bool is_wanted(const CachedAttachment& one, const Listed& wanted) {
  const auto ports = host_ports_of(one);
  const auto ips = result_of(one).ips;
  const auto address = netlink::Ip::parse(wanted.address);
  const bool has_address =
      std::ranges::any_of(ips, [&address](const auto& ip) { return ip.cidr.ip == address; });
  return wanted.which.has(one.key) && (has_address || wanted.address.empty()) &&
         (wanted.host_port == 0 || find_by(ports, &HostPort::host, wanted.host_port) != nullptr);
}

std::time_t age_of(const CachedAttachment& one) { return std::time(nullptr) - one.modified; }

ordered_json summary(const CachedAttachment& one) {
  ordered_json out;
  out["network"] = one.key.network;
  out["containerID"] = one.key.container_id;
  out["podName"] = pod_name_of(one);
  out["ifname"] = one.key.ifname;
  out["netns"] = one.netns;
  out["addresses"] = addresses_of(one);
  out["ageSeconds"] = age_of(one);
  out["state"] = state_of(one).text;
  return out;
}

std::vector<Cell> row_of(const CachedAttachment& one, bool has_names) {
  std::vector<Cell> out{{one.key.network},   {one.key.container_id},  {one.key.ifname},
                        {address_text(one)}, {age_text(age_of(one))}, state_of(one)};
  if (!has_names) return out;
  const std::string pod = pod_name_of(one);
  out.insert(out.begin(), {pod.empty() ? "-" : pod});
  return out;
}

// Names are a column of their own where there are any.
void print_rows(const std::vector<CachedAttachment>& all, const Output& output) {
  const bool has_names =
      std::ranges::any_of(all, [](const auto& one) { return !pod_name_of(one).empty(); });
  std::vector<std::vector<Cell>> rows{{}};
  if (has_names) rows[0].push_back({"POD", Colour::kBold});
  for (const char* heading : {"NETWORK", "CONTAINER", "INTERFACE", "ADDRESSES", "AGE", "STATE"}) {
    rows[0].push_back({heading, Colour::kBold});
  }
  for (const CachedAttachment& one : all) rows.push_back(row_of(one, has_names));
  print_table(output, rows);
}

void print_json(const cni::Cache::Listing& found, const Output& output) {
  ordered_json out{{"attachments", ordered_json::array()}, {"broken", ordered_json::array()}};
  for (const CachedAttachment& one : found.attachments) out["attachments"].push_back(summary(one));
  for (const auto& one : found.broken) {
    out["broken"].push_back({{"file", one.name}, {"why", one.why}});
  }
  output.print(out);
}

ordered_json details(const CachedAttachment& one) {
  ordered_json out = summary(one);
  out["cniArgs"] = ordered_json::object();
  for (const auto& [key, value] : one.args) out["cniArgs"][key] = value;
  out["capabilityArgs"] = *one.capabilities;
  out["config"] = json_or_text(one.config);
  out["result"] = *one.result;
  return out;
}

void print_text(const CachedAttachment& one, const Output& output) {
  const Cell state = state_of(one);
  const std::string args = printable(cni::joined(one.args));
  const std::string pod = pod_name_of(one);
  const Output whole{.out = output.out, .colours = output.colours};  // here, nothing is cut
  print_table(whole, {{{"network"}, {one.key.network}},
                      {{"pod"}, {pod.empty() ? "-" : pod}},
                      {{"container"}, {one.key.container_id}},
                      {{"interface"}, {one.key.ifname}},
                      {{"namespace"}, {one.netns.empty() ? "-" : one.netns}},
                      {{"addresses"}, {address_text(one)}},
                      {{"age"}, {age_text(age_of(one))}},
                      {{"state"}, state},
                      {{"arguments"}, {args.empty() ? "-" : args}}});
  const auto block = [&output](std::string_view heading, const std::string& text) {
    output.out << '\n' << output.painted(Colour::kBold, heading) << '\n' << indented(text, 1);
  };
  if (!one.capabilities->empty()) block("capability arguments", pretty(one.capabilities->dump()));
  block("config", one.config.empty() ? "-" : pretty(one.config));
  block("result", one.result->is_null() ? "-" : pretty(one.result->dump()));
}

}  // namespace

void list(const Listed& wanted, const Settings& settings, const Output& output) {
  const cni::Cache cache(settings.cache_dir);
  cni::Cache::Listing found = cache.list();
  std::erase_if(found.attachments, [&](const auto& one) { return !is_wanted(one, wanted); });
  const std::string& network = wanted.which.network;
  if (!network.empty()) {
    std::erase_if(found.broken,
                  [&](const auto& one) { return !one.name.starts_with(network + "-"); });
  }
  sort_by_pod(found.attachments);
  if (output.json) return print_json(found, output);
  note_broken(cache, found.broken);
  print_rows(found.attachments, output);
}

void show(const cni::AttachmentKey& key, const Settings& settings, const Output& output) {
  const auto found = cni::Cache(settings.cache_dir).find(key);
  if (!found) {
    throw cni::Error(
        cni::Code::kUnknownContainer, cat("show ", key.str(), ": not in the cache"),
        "`cnitool list` lists all attachments; --container-id selects one without its namespace");
  }
  if (output.json) return output.print(details(*found));
  print_text(*found, output);
}

}  // namespace tool

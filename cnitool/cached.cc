#include "cnitool/cached.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cnitool/json_at.h"
#include "cnitool/output.h"
#include "libcni/common/undo.h"
#include "libcni/config/names.h"
#include "libcni/config/nearest.h"

namespace tool {

using nlohmann::json;

cni::Result result_of(const cni::CachedAttachment& one) try {
  return one.result->is_null() ? cni::Result() : cni::result_from(one.result);
} catch (const cni::Error&) {
  return {};
}

std::string pod_name_of(const cni::CachedAttachment& one) {
  const auto argument = [&one](std::string_view key) {
    const auto found =
        std::ranges::find_if(one.args, [key](const auto& arg) { return arg.first == key; });
    return found == one.args.end() ? std::string() : found->second;
  };
  return printable(cni::pod_name(argument("K8S_POD_NAMESPACE"), argument("K8S_POD_NAME")));
}

namespace {

// "default/web-1" is named "web-1", too.
bool is_named(const std::string& pod, const std::string& name) {
  return pod == name || (!pod.empty() && pod.substr(pod.find('/') + 1) == name);
}

}  // namespace

std::set<std::string> containers_named(const std::string& name, const cni::Cache& cache) {
  const cni::Cache::Listing found = cache.list();
  std::map<std::string, std::set<std::string>> pods, begun;  // IDs by name
  std::vector<std::string> names;
  for (const auto& one : found.attachments) {
    const std::string& id = one.key.container_id;
    const std::string pod = pod_name_of(one);
    if (id == name) return {id};
    if (id.starts_with(name)) begun[id] = {id};
    if (is_named(pod, name)) pods[pod].insert(id);
    names.push_back(id);
    if (!pod.empty()) names.insert(names.end(), {pod, pod.substr(pod.find('/') + 1)});
  }
  const auto& meant = pods.empty() ? begun : pods;
  if (meant.size() == 1) return meant.begin()->second;
  for (const auto& one : found.broken) {
    if (one.name.find(cat("-", name, "-")) != std::string::npos) return {name};
  }
  const std::string what = cat("container '", name, "': ");
  const std::string near = cni::nearest(name, names);
  std::vector<std::string> all;
  for (const auto& [one, ids] : meant) all.push_back(one);
  throw cni::Error(cni::Code::kUnknownContainer,
                   all.empty() ? cat(what, "no attachment in the cache",
                                     near.empty() ? "" : cat(" (did you mean ", near, "?)"))
                               : cat(what, "matches ", all.size(), ": ", joined(all)),
                   "`cnitool list` lists all attachments");
}

std::set<std::string> containers_of_pod(const std::string& name, Pods several,
                                        const cni::Cache& cache) {
  std::map<std::string, std::set<std::string>> pods;  // IDs by name
  std::vector<std::string> names;
  std::set<std::string> out;
  for (const auto& one : cache.list().attachments) {
    const std::string pod = pod_name_of(one);
    if (pod.empty()) continue;
    names.insert(names.end(), {pod, pod.substr(pod.find('/') + 1)});
    if (!is_named(pod, name)) continue;
    pods[pod].insert(one.key.container_id);
    out.insert(one.key.container_id);
  }
  if (pods.size() == 1 || (!pods.empty() && several == Pods::kSeveral)) return out;
  const std::string what = cat("pod '", printable(name), "': ");
  if (pods.empty()) {
    const std::string near = cni::nearest(name, names);
    throw cni::Error(cni::Code::kUnknownContainer,
                     cat(what, "no attachment in the cache",
                         near.empty() ? "" : cat(" (did you mean ", near, "?)")),
                     "`cnitool list` lists all attachments");
  }
  std::vector<std::string> all;
  for (const auto& [pod, ids] : pods) all.push_back(pod);
  throw cni::Error(cni::Code::kUnknownContainer,
                   cat(what, "matches ", all.size(), ": ", joined(all)),
                   "nothing was changed; --pod NAMESPACE/NAME names one of them");
}

std::vector<HostPort> host_ports_of(const cni::CachedAttachment& one) {
  std::vector<HostPort> out;
  const json* const mappings = member(one.capabilities, "portMappings");
  if (mappings == nullptr || !mappings->is_array()) return out;
  for (const json& mapping : *mappings) {
    const auto number = [&mapping](const char* key) {
      return static_cast<unsigned>(std::min(number_at(mapping, key), 65535.0));
    };
    if (number("hostPort") == 0) continue;
    out.push_back({text_at(mapping, "hostIP"), number("hostPort"), number("containerPort"),
                   text_at(mapping, "protocol", "tcp")});
  }
  return out;
}

void sort_by_pod(std::vector<cni::CachedAttachment>& attachments) {
  const auto owner = [](const cni::CachedAttachment& one) {
    const std::string pod = pod_name_of(one);
    return pod.empty() ? one.key.container_id : pod;  // which has a slash, as no container's ID
  };
  std::map<std::string, cni::AttachmentKey> first;
  for (const auto& one : attachments) {
    const auto [at, is_new] = first.emplace(owner(one), one.key);
    if (!is_new) at->second = std::min(at->second, one.key);
  }
  std::ranges::sort(attachments, [&](const auto& a, const auto& b) {
    return std::tie(first.at(owner(a)), a.key) < std::tie(first.at(owner(b)), b.key);
  });
}

std::vector<cni::CachedAttachment> sorted_entries(const cni::Cache& cache) {
  cni::Cache::Listing found = cache.list();
  note_broken(cache, found.broken);
  std::ranges::sort(found.attachments, [](const auto& a, const auto& b) { return a.key < b.key; });
  return std::move(found.attachments);
}

void note_broken(const cni::Cache& cache, const std::vector<cni::Cache::Broken>& broken) {
  for (const cni::Cache::Broken& one : broken) {
    cni::note(cat("cache file '", cache.dir(), "/results/", one.name, "' is broken: ", one.why));
  }
}

}  // namespace tool

#include "plugins/devices/agent/nri/log/addresses.h"

#include <exception>
#include <nlohmann/json.hpp>

#include "libcni/common/dir.h"
#include "libcni/config/result.h"
#include "libcni/runtime/cache_entry.h"
#include "plugins/devices/agent/nri/events.h"

namespace devices::nri {

namespace {

void append(std::vector<Attached>& out, const cni::Result& result) {
  std::vector<std::size_t> places(result.interfaces.size());
  for (std::size_t i = 0; i < result.interfaces.size() && out.size() < kMaxInterfaces; ++i) {
    const cni::Interface& one = result.interfaces[i];
    if (one.sandbox.empty() || one.name == "lo") continue;  // on the node: a bridge, a host veth
    out.push_back({one.name.substr(0, kMaxText), one.mac.substr(0, kMaxText), {}});
    places[i] = out.size();
  }
  for (const cni::Address& one : result.ips) {
    if (!one.interface || *one.interface >= places.size()) continue;
    const std::size_t place = places[*one.interface];
    if (place == 0) continue;
    auto& addresses = out[place - 1].addresses;
    if (addresses.size() < kMaxAddresses) addresses.push_back(one.cidr.str());
  }
}

// The name of a file is NETWORK-CONTAINER-INTERFACE, of which each part may have hyphens: the ones
// of the sandboxes that may be the container.
std::set<std::string> candidates(const std::string& name, const std::set<std::string>& sandboxes) {
  std::set<std::string> out;
  for (auto begin = name.find('-'); begin != name.npos; begin = name.find('-', begin + 1)) {
    for (auto end = name.find('-', begin + 1); end != name.npos; end = name.find('-', end + 1)) {
      std::string id = name.substr(begin + 1, end - begin - 1);
      if (sandboxes.contains(id)) out.insert(std::move(id));
    }
  }
  return out;
}

// Users of a namespace may name networks: only the content says which container a file is of.
void append(std::map<std::string, std::vector<Attached>>& out, const cni::Dir& results,
            const std::string& name, const std::set<std::string>& of) try {
  const auto file = results.read(name);
  if (!file) return;
  const auto entry = cni::attachment_in(name, *file, nullptr);
  if (entry.result->is_null() || !of.contains(entry.key.container_id)) return;
  append(out[entry.key.container_id], cni::result_from(entry.result));
} catch (const std::exception&) {  // half written, or of a later format
}

}  // namespace

std::map<std::string, std::vector<Attached>> interfaces_of(const std::string& dir,
                                                           const std::set<std::string>& sandboxes) {
  std::map<std::string, std::vector<Attached>> out;
  try {
    const auto results = cni::Dir::open(dir + "/results");
    if (!results) return out;
    std::map<std::string, std::set<std::string>> files;  // in order: eth0 before net1
    for (const std::string& name : results->names()) {
      if (auto of = candidates(name, sandboxes); !of.empty()) files.emplace(name, std::move(of));
    }
    for (const auto& [name, of] : files) append(out, *results, name, of);
  } catch (const std::exception&) {  // the folder cannot be read: nothing is known
  }
  return out;
}

}  // namespace devices::nri

#include "plugins/devices/agent/nri/log/addresses.h"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/config/result.h"
#include "libcni/runtime/cache_entry.h"

namespace devices::nri {

namespace {

constexpr std::size_t kMaxInterfaces = 64;

void append(std::vector<Attached>& out, const cni::Result& result) {
  std::vector<std::size_t> places(result.interfaces.size());
  for (std::size_t i = 0; i < result.interfaces.size() && out.size() < kMaxInterfaces; ++i) {
    const cni::Interface& one = result.interfaces[i];
    if (one.sandbox.empty() || one.name == "lo") continue;  // on the node: a bridge, a host veth
    out.push_back({one.name, one.mac, {}});
    places[i] = out.size();
  }
  for (const cni::Address& one : result.ips) {
    if (!one.interface || *one.interface >= places.size()) continue;
    const std::size_t place = places[*one.interface];
    if (place != 0) out[place - 1].addresses.push_back(one.cidr.str());
  }
}

void append(std::vector<Attached>& out, const cni::Dir& results, const std::string& name) try {
  const auto file = results.read(name);
  if (!file) return;
  const auto entry = cni::attachment_in(name, *file, nullptr);
  if (!entry.result->is_null()) append(out, cni::result_from(entry.result));
} catch (const std::exception&) {  // half written, or of a later format
}

}  // namespace

// The name of a file is NETWORK-CONTAINER-INTERFACE. Only those of the sandbox are read.
std::vector<Attached> interfaces_of(const std::string& dir, const std::string& sandbox) {
  std::vector<Attached> out;
  if (sandbox.empty()) return out;
  try {
    const auto results = cni::Dir::open(dir + "/results");
    if (!results) return out;
    auto names = results->names();
    std::ranges::sort(names);
    for (const std::string& name : names) {
      if (name.find(cni::cat("-", sandbox, "-")) != std::string::npos) append(out, *results, name);
    }
  } catch (const std::exception&) {  // the folder cannot be read: nothing is known
  }
  return out;
}

}  // namespace devices::nri

#include "cnitool/node_runtimes.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "cnitool/output.h"
#include "cnitool/runtimes.h"
#include "libcni/common/version.h"

namespace tool {

namespace {

constexpr std::string_view kNames[] = {"containerd", "crio", "k3s", "rke2"};

// Go keeps the names of functions and the tags of types in every executable. The package types/100
// came with 1.0.0 (release 1.0 of containernetworking/cni), this member of a route with 1.1.0
// (1.2).
constexpr std::string_view kLibrary = "containernetworking/cni/libcni.";
constexpr std::string_view kTypes100 = "containernetworking/cni/pkg/types/100.";
constexpr std::string_view kRoute110 = R"(json:"advmss,omitempty")";

std::string newest_of(const std::string& executable) {
  if (!mentions(executable, kLibrary)) return {};
  if (mentions(executable, kRoute110)) return "1.1.0";
  return mentions(executable, kTypes100) ? "1.0.0" : "0.4.0";
}

std::optional<cni::Version> known(const std::string& version) { return cni::version_from(version); }

}  // namespace

bool mentions(const std::string& file, std::string_view text) {
  constexpr std::size_t kChunk = std::size_t{256} * 1024;
  std::ifstream in(file, std::ios::binary);
  std::string buffer;
  std::string chunk(kChunk, '\0');
  while (in) {
    in.read(chunk.data(), kChunk);
    buffer.append(chunk, 0, static_cast<std::size_t>(in.gcount()));
    if (buffer.find(text) != std::string::npos) return true;
    if (buffer.size() > text.size()) buffer.erase(0, buffer.size() - text.size());
  }
  return false;
}

std::vector<NodeRuntime> node_runtimes() {
  std::vector<NodeRuntime> out;
  std::set<std::string> seen;
  const auto name_of = [](const std::string& file) { return file.substr(file.rfind('/') + 1); };
  const auto is_runtime = [&](const std::string& /*comm*/, const std::string& file) {
    return std::ranges::find(kNames, name_of(file)) != std::end(kNames);
  };
  for (const Process& process : processes(is_runtime)) {
    const std::string& file = process.executable;
    if (!process.is_of_node) continue;
    if (name_of(file) == "containerd" && is_for_docker(process)) continue;
    if (!seen.insert(file).second) continue;
    const std::string newest = newest_of(process.path + "/exe");
    if (!newest.empty()) out.push_back({name_of(file), printable(file), newest});
  }
  return out;
}

std::optional<VersionAdvice> version_advice(const std::string& single, const std::string& best,
                                            const std::vector<NodeRuntime>& runtimes) {
  if (runtimes.empty() || !known(single) || !known(best)) return std::nullopt;
  const auto is_older = [](const auto& a, const auto& b) {
    return known(a.newest) < known(b.newest);
  };
  const NodeRuntime& oldest = *std::ranges::min_element(runtimes, is_older);
  const NodeRuntime& latest = *std::ranges::max_element(runtimes, is_older);
  const std::string name = cat(oldest.name, " (", oldest.file, ")");
  if (known(single) > known(oldest.newest)) {
    return VersionAdvice{oldest.newest, cat("which ", name, " does not support"),
                         cat("it supports versions up to ", oldest.newest,
                             " and refuses the result of ADD: no pod starts"),
                         true, known(single) > known(latest.newest)};
  }
  if (oldest.newest != str(cni::kNewest) || known(best) == cni::kNewest) return std::nullopt;
  return VersionAdvice{oldest.newest, cat(name, " supports ", oldest.newest),
                       "before 1.1.0 it does not ask the plugins whether they are ready (STATUS)"};
}

}  // namespace tool

#include "cnitool/node_runtimes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>

#include "cnitool/output.h"
#include "libcni/common/dir.h"
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

bool is_same(const std::string& a, const std::string& b) {
  struct stat one {
  }, other{};
  return ::stat(a.c_str(), &one) == 0 && ::stat(b.c_str(), &other) == 0 &&
         one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// A pod may have a process of any name: not one in the node's namespaces.
bool is_of_node(const std::string& process) {
  struct stat about {};
  return ::stat(process.c_str(), &about) == 0 && about.st_uid == 0 &&
         is_same(process + "/ns/net", "/proc/self/ns/net") &&
         is_same(process + "/ns/pid", "/proc/self/ns/pid");
}

// Of files of /proc, whose size is not known.
std::string content_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// "--config FILE", "--config=FILE" or -c, as containerd(8) has it.
std::string config_of(const std::string& process) {
  std::vector<std::string> words;
  const std::string line = content_of(process + "/cmdline");
  for (std::size_t at = 0; at < line.size();) {
    const auto end = std::min(line.find('\0', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("--config=")) return words[i].substr(9);
    if ((words[i] == "--config" || words[i] == "-c") && i + 1 < words.size()) return words[i + 1];
  }
  return "/etc/containerd/config.toml";
}

// Docker's has no pods: its own, or one whose config disables the interface for kubelets.
bool is_for_docker(const std::string& process) {
  const std::string config = config_of(process);
  if (config.find("/docker/") != config.npos) return true;
  const std::string text = "\n" + content_of(config);
  const auto line = text.find("\ndisabled_plugins");
  return line != text.npos &&
         text.substr(line, text.find(']', line) - line).find("cri\"") != text.npos;
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
  for (const std::string& pid : cni::names_in("/proc")) {
    if (std::isdigit(static_cast<unsigned char>(pid[0])) == 0) continue;
    const std::string process = cat("/proc/", pid);
    std::error_code gone;
    std::string file = std::filesystem::read_symlink(process + "/exe", gone).string();
    constexpr std::string_view kDeleted = " (deleted)";  // an update that did not restart it
    if (file.ends_with(kDeleted)) file.erase(file.size() - kDeleted.size());
    const std::string name = file.substr(file.rfind('/') + 1);
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) continue;
    if (!is_of_node(process) || is_for_docker(process) || !seen.insert(file).second) continue;
    const std::string newest = newest_of(process + "/exe");
    if (!newest.empty()) out.push_back({name, printable(file), newest});
  }
  return out;
}

std::optional<VersionAdvice> version_advice(const std::string& single, const std::string& best,
                                            const std::vector<NodeRuntime>& runtimes) {
  if (runtimes.empty() || !known(single) || !known(best)) return std::nullopt;
  const auto is_older = [](const auto& a, const auto& b) {
    return known(a.newest) < known(b.newest);
  };
  const NodeRuntime& oldest = *std::min_element(runtimes.begin(), runtimes.end(), is_older);
  const NodeRuntime& latest = *std::max_element(runtimes.begin(), runtimes.end(), is_older);
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

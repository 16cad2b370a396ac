#include "installer/runtimes.h"

#include <algorithm>
#include <optional>

#include "libcni/common/dir.h"
#include "libcni/plugin/node_tool.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace installer {

namespace {

using netlink::cat;

constexpr const char* kK3s = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml";
constexpr const char* kRke2 = "/var/lib/rancher/rke2/agent/etc/containerd/config.toml";
constexpr const char* kDefault = "/opt/cni/bin";  // of containerd, unless a distribution changed it

std::vector<std::string> folders_of_containerd(const std::string& config) {
  auto out = values_in(config, "bin_dirs");
  if (out.empty()) out = values_in(config, "bin_dir");
  if (out.empty()) out.emplace_back(kDefault);
  return out;
}

// What a program prints of its config; empty where it is not installed or fails.
std::string printed_by(const char* program, const std::vector<std::string>& arguments) try {
  const auto file = cni::find_node_tool(program);
  return file ? cni::run_node_tool(*file, arguments, "").out : "";
} catch (const std::exception&) {
  return {};
}

std::optional<Runtime> containerd_of(const char* name, const char* config) {
  const auto text = netlink::read_file(config);
  if (!text) return std::nullopt;
  return Runtime{name, folders_of_containerd(*text), config};
}

std::optional<Runtime> containerd() {
  if (!cni::find_node_tool("containerd")) return std::nullopt;
  const std::string config = printed_by("containerd", {"config", "dump"});
  return Runtime{"containerd", folders_of_containerd(config), "containerd config dump"};
}

std::optional<Runtime> crio() {
  if (!cni::find_node_tool("crio")) return std::nullopt;
  auto folders = values_in(printed_by("crio", {"config"}), "plugin_dirs", /*has_comments=*/true);
  if (folders.empty()) folders.emplace_back(kDefault);
  return Runtime{"crio", std::move(folders), "crio config"};
}

std::optional<Runtime> podman() {
  if (!cni::find_node_tool("podman")) return std::nullopt;
  // containers.conf(5); without the key the list of containers/common.
  for (const char* const file :
       {"/etc/containers/containers.conf", "/usr/share/containers/containers.conf"}) {
    const auto text = netlink::read_file(file);
    if (!text) continue;
    auto folders = values_in(*text, "cni_plugin_dirs");
    if (!folders.empty()) return Runtime{"podman", std::move(folders), file};
  }
  return Runtime{"podman",
                 {"/usr/local/libexec/cni", "/usr/libexec/cni", "/usr/local/lib/cni",
                  "/usr/lib/cni", kDefault},
                 "podman's default"};
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* kBlank = " \t\r";
  const auto first = text.find_first_not_of(kBlank);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// The string that stands first, or the strings of a list, up to its bracket. A comment is left out,
// but for one that a line of a list begins with where has_comments.
std::vector<std::string> strings_in(std::string_view text, bool has_comments) {
  std::vector<std::string> out;
  const bool is_list = text.starts_with('[');
  bool begins_line = false;
  const auto skip_to = [&text](std::size_t end) { text.remove_prefix(std::min(end, text.size())); };
  while (!text.empty() && text.front() != (is_list ? ']' : '\n')) {
    const char first = text.front();
    if (first == '"' || first == '\'') {
      const auto end = text.find(first, 1);
      if (end == text.npos) break;
      std::string value(text.substr(1, end - 1));
      while (value.size() > 1 && value.ends_with('/')) value.pop_back();
      if (!value.empty()) out.push_back(std::move(value));
      if (!is_list) break;
      begins_line = false;
      skip_to(end + 1);
    } else if (first == '#' && !(has_comments && begins_line)) {
      skip_to(text.find('\n'));
    } else {
      begins_line = first == '\n' || (begins_line && first != '#');
      skip_to(1);
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> values_in(const std::string& toml, const std::string& key,
                                   bool has_comments) {
  std::vector<std::string> out;
  for (std::size_t start = 0; start < toml.size();) {
    const std::size_t end = std::min(toml.find('\n', start), toml.size());
    std::string_view line = trimmed(std::string_view(toml).substr(start, end - start));
    if (has_comments && line.starts_with('#')) line = trimmed(line.substr(1));
    const auto equals = line.find('=');
    if (equals != line.npos && trimmed(line.substr(0, equals)) == key) {
      const std::string_view rest = std::string_view(toml).substr(start);
      const auto value = rest.find_first_not_of(" \t", rest.find('=') + 1);
      if (value != rest.npos) out = strings_in(rest.substr(value), has_comments);
    }
    start = end + 1;
  }
  return out;
}

const std::vector<std::string>& runtime_names() {
  static const std::vector<std::string> names{"k3s", "rke2", "containerd", "crio", "podman"};
  return names;
}

std::vector<Runtime> runtimes_here() {
  std::vector<Runtime> out;
  for (auto& found :
       {containerd_of("k3s", kK3s), containerd_of("rke2", kRke2), containerd(), crio(), podman()}) {
    if (found) out.push_back(*found);
  }
  return out;
}

std::optional<std::string> folder_with(const Runtime& runtime, const std::string& name) {
  const auto found = std::find_if(
      runtime.folders.begin(), runtime.folders.end(),
      [&](const std::string& folder) { return cni::Dir::exists(cat(folder, "/", name)); });
  return found == runtime.folders.end() ? std::nullopt : std::optional(*found);
}

std::string folder_of(const Runtime& runtime) {
  for (const char* const name : {"bridge", "loopback", "."}) {
    if (auto found = folder_with(runtime, name)) return *found;
  }
  return runtime.folders.front();
}

}  // namespace installer

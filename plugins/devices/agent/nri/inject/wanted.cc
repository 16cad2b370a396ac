#include "plugins/devices/agent/nri/inject/wanted.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "kubernetes/yaml.h"
#include "libcni/common/error.h"
#include "libcni/common/printable.h"

namespace devices::nri {

namespace {

using cni::cat;
using nlohmann::json;

constexpr std::size_t kMaxName = 255, kMaxValue = 1024, kMaxAnnotation = 65536;
constexpr std::int64_t kMaxMajor = 4095, kMaxMinor = 1048575;  // MKDEV of include/linux/kdev_t.h

[[noreturn]] void refuse(std::string_view why) {
  throw cni::Error(cni::Code::kInvalidConfig, std::string(why));
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alnum(char c) { return is_letter(c) || is_digit(c); }

bool has_only(std::string_view text, std::string_view more) {
  return std::ranges::all_of(
      text, [&](char c) { return is_alnum(c) || more.find(c) != std::string_view::npos; });
}

std::optional<HostNode> find_on_host(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  if (!S_ISCHR(found.st_mode) && !S_ISBLK(found.st_mode)) return std::nullopt;
  return HostNode{S_ISCHR(found.st_mode) ? 'c' : 'b', major(found.st_rdev), minor(found.st_rdev)};
}

std::optional<std::int64_t> integer_at(const json& object, const char* key, std::int64_t most) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  const auto value = found->is_number_integer() ? found->get<std::int64_t>() : -1;
  if (value < 0 || value > most) refuse(cat("'", key, "' is no integer from 0 to ", most));
  return value;
}

std::optional<std::uint32_t> small_at(const json& object, const char* key, std::int64_t most) {
  const auto out = integer_at(object, key, most);
  return out ? std::optional(static_cast<std::uint32_t>(*out)) : std::nullopt;
}

// A path that begins with "-" would remove a device from the container.
std::string path_in(const json& object) {
  const auto found = object.find("path");
  if (found == object.end() || !found->is_string()) refuse("a device has no path");
  const auto& path = found->get_ref<const std::string&>();
  const auto has_part = [whole = cat(path, "/")](const char* part) {
    return whole.find(cat("/", part, "/")) != std::string::npos;
  };
  // With an empty part or a dot one device would have two paths, and "/dev/" itself one.
  const bool is_plain = path.starts_with("/dev/") && path.size() <= kMaxName &&
                        has_only(path, "/._:+@,=-") && !has_part("") && !has_part(".") &&
                        !has_part("..");
  if (!is_plain)
    refuse(cat("'", cni::printable_text(path.substr(0, kMaxName)),
               "' is no path of a device below /dev"));
  return path;
}

HostNode numbers_in(const json& object, const std::string& path, const Policy& policy) {
  const auto type = object.find("type");
  const auto major = integer_at(object, "major", kMaxMajor);
  const auto minor = integer_at(object, "minor", kMaxMinor);
  if (type == object.end() && !major && !minor) {
    const auto found = policy.find ? policy.find(path) : find_on_host(path);
    if (!found) refuse(cat("'", path, "' is no device node of the host"));
    return *found;
  }
  if (type == object.end() || !major || !minor) {
    refuse(cat("'", path, "': type, major and minor belong together"));
  }
  if (*type != "c" && *type != "b") refuse(cat("'", path, "': the type is neither c nor b"));
  return {type->get_ref<const std::string&>()[0], *major, *minor};
}

DeviceNode node_in(const json& object, const Policy& policy) {
  if (!object.is_object()) refuse("a device is no object");
  for (const auto& [key, value] : object.items()) {
    static const std::set<std::string> kKeys = {"path",      "type", "major", "minor",
                                                "file_mode", "uid",  "gid"};
    if (!kKeys.contains(key)) {
      refuse(
          cat("a device has the unknown key '", cni::printable_text(key.substr(0, kMaxName)), "'"));
    }
  }
  std::string path = path_in(object);
  const HostNode host = numbers_in(object, path, policy);
  constexpr std::int64_t kMaxId = UINT32_MAX - std::int64_t{1};  // the last one is no ID
  return {.path = std::move(path),
          .type = host.type,
          .major = host.major,
          .minor = host.minor,
          .mode = small_at(object, "file_mode", 0777),
          .uid = small_at(object, "uid", kMaxId),
          .gid = small_at(object, "gid", kMaxId)};
}

void add_nodes(const json& list, const Policy& policy, Adjustment& out) {
  for (const json& one : list) {
    DeviceNode node = node_in(one, policy);
    const bool is_second = std::ranges::any_of(
        out.nodes, [&](const DeviceNode& other) { return other.path == node.path; });
    if (is_second) refuse(cat("'", node.path, "' twice"));
    out.nodes.push_back(std::move(node));
  }
}

// VENDOR/CLASS=NAME, of the CDI specification: vendor and class begin with a letter and end with a
// letter or digit, a name ends so, too.
bool is_cdi_name(std::string_view text) {
  const auto slash = text.find('/');
  const auto equal = text.find('=');
  if (slash == text.npos || equal == text.npos || slash > equal) return false;
  const std::string_view vendor = text.substr(0, slash);
  const std::string_view kind = text.substr(slash + 1, equal - slash - 1);
  const std::string_view name = text.substr(equal + 1);
  const auto is_part = [](std::string_view part, std::string_view more) {
    return !part.empty() && is_alnum(part.front()) && is_alnum(part.back()) && has_only(part, more);
  };
  return text.size() <= kMaxName && is_part(vendor, "-_.") && is_letter(vendor[0]) &&
         is_part(kind, "-_.") && is_letter(kind[0]) && is_part(name, "-_.:");
}

void add_cdi(const json& list, Adjustment& out) {
  for (const json& one : list) {
    if (!one.is_string() || !is_cdi_name(one.get_ref<const std::string&>())) {
      refuse("an element is no name of a CDI device (VENDOR/CLASS=NAME)");
    }
    auto name = one.get<std::string>();
    if (std::ranges::find(out.cdi, name) != out.cdi.end()) refuse(cat("'", name, "' twice"));
    out.cdi.push_back(std::move(name));
  }
}

void add_sysctls(const json& object, const Sandbox& sandbox, Adjustment& out) {
  if (sandbox.netns.empty()) refuse("the pod has the network of the node");
  for (const auto& [key, value] : object.items()) {
    const bool is_net = key.starts_with("net.") && key.size() <= kMaxName && has_only(key, "._-") &&
                        key.find("..") == std::string::npos && !key.ends_with('.');
    if (!is_net) {
      refuse(cat("'", cni::printable_text(key.substr(0, kMaxName)), "' is no sysctl of net"));
    }
    if (value.is_number_integer()) {
      out.sysctl[key] = value.dump();
      continue;
    }
    const bool is_line =
        value.is_string() && value.get_ref<const std::string&>().size() <= kMaxValue &&
        std::ranges::all_of(value.get_ref<const std::string&>(),
                            [](char c) { return c == '\t' || (c >= ' ' && c < 0x7f); });
    if (!is_line) refuse(cat("'", key, "': its value is no integer and no line of text"));
    out.sysctl[key] = value.get<std::string>();
  }
}

// "v2.1.9+unknown" is 2, 1 and 9. Empty: it is no version.
std::optional<std::array<unsigned, 3>> numbers_of(std::string_view version) {
  std::array<unsigned, 3> out{};
  if (version.starts_with('v')) version.remove_prefix(1);
  for (unsigned& number : out) {
    const auto [end, error] = std::from_chars(version.begin(), version.end(), number);
    if (error != std::errc()) return std::nullopt;
    version.remove_prefix(static_cast<std::size_t>(end - version.begin()));
    if (&number != &out.back() && !version.starts_with('.')) return std::nullopt;
    if (version.starts_with('.')) version.remove_prefix(1);
  }
  return out;
}

enum class Wish : std::uint8_t { kDevices, kCdi, kSysctl };
struct Name {
  Wish kind;
  std::string_view text;
};
constexpr Name kNames[] = {
    {Wish::kDevices, "devices"}, {Wish::kCdi, "cdi-devices"}, {Wish::kSysctl, "sysctl"}};

// The key of the annotation that counts for a container; empty: none.
std::string key_for(const Sandbox& sandbox, std::string_view name, const Container& container) {
  for (const std::string& suffix :
       {cat("/container.", container.name), std::string("/pod"), std::string()}) {
    for (const std::string_view domain : {".noderesource.dev", ".nri.io"}) {
      std::string key = cat(name, domain, suffix);
      if (sandbox.annotations.contains(key)) return key;
    }
  }
  return {};
}

void add(Wish kind, const std::string& text, std::pair<const Sandbox&, const Policy&> of,
         Adjustment& out) {
  if (text.size() > kMaxAnnotation) refuse(cat("more than ", kMaxAnnotation, " bytes"));
  const json value = kubernetes::parse_yaml(text, "YAML");
  const bool is_right = kind == Wish::kSysctl ? value.is_object() : value.is_array();
  if (!is_right) refuse(kind == Wish::kSysctl ? "expected an object" : "expected a list");
  if (value.size() > kMaxWanted) refuse(cat("more than ", kMaxWanted));
  if (kind == Wish::kCdi && !of.second.runtime.cdi) {
    refuse(
        "the container runtime adds no CDI devices of NRI: containerd does from 2.1 on, CRI-O from "
        "1.34");
  }
  if (kind == Wish::kSysctl && !of.second.runtime.sysctl) {
    refuse(
        "the container runtime sets no sysctls of NRI: containerd does from 2.2.1 on, CRI-O from "
        "1.35");
  }
  if (kind == Wish::kDevices) add_nodes(value, of.second, out);
  if (kind == Wish::kCdi) add_cdi(value, out);
  if (kind == Wish::kSysctl) add_sysctls(value, of.first, out);
}

}  // namespace

Abilities abilities_of(const std::string& runtime, const std::string& version) {
  const auto found = numbers_of(version);
  if (!found) return {};
  using Numbers = std::array<unsigned, 3>;
  if (runtime == "containerd") {
    return {.cdi = *found >= Numbers{2, 1, 0}, .sysctl = *found >= Numbers{2, 2, 1}};
  }
  if (runtime == "cri-o") {
    return {.cdi = *found >= Numbers{1, 34, 0}, .sysctl = *found >= Numbers{1, 35, 0}};
  }
  return {};
}

Adjustment wanted_by(const Sandbox& sandbox, const Container& container, const Policy& policy) {
  Adjustment out;
  for (const Name& name : kNames) {
    const std::string key = key_for(sandbox, name.text, container);
    if (key.empty()) continue;
    cni::during(cat("read annotation '", cni::printable_text(key), "'"), [&] {
      if (!policy.allowed.contains(sandbox.space)) {
        refuse(cat("pods of namespace '", cni::printable_text(sandbox.space),
                   "' may not ask for it (--allow of patchbay-agent nri inject)"));
      }
      add(name.kind, sandbox.annotations.at(key), {sandbox, policy}, out);
    });
  }
  return out;
}

bool is_namespace(std::string_view text) {
  const auto is_inner = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || c == '-'; };
  return !text.empty() && text.size() <= 63 && std::ranges::all_of(text, is_inner) &&
         text.front() != '-' && text.back() != '-';
}

}  // namespace devices::nri

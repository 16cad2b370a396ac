#include "plugins/host-device/info_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/config/json.h"
#include "plugins/host-device/device.h"

namespace host_device {

namespace {

using cni::cat;
using cni::Dir;
using nlohmann::json;

constexpr const char* kInfoAside = ".patchbay.new";
constexpr const char* kVersion = "1.1.0";
constexpr const char* kTypeKey = "type";
constexpr const char* kVersionKey = "version";
constexpr const char* kPciKey = "pci";  // also the type
constexpr const char* kAddressKey = "pci-address";
constexpr const char* kParentKey = "pf-pci-address";
constexpr mode_t kMode = 0444;  // workloads read it

struct Place {
  std::string directory, name;
};

Place place_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

void write(const Dir& dir, const std::string& name, const std::string& content) {
  dir.replace(name, content, kInfoAside);
  if (::fchmodat(dir.fd(), name.c_str(), kMode, 0) != 0) {
    throw netlink::Error(cat("make '", dir.path(), "/", name, "' readable"), errno);
  }
}

struct RestoreInfo {
  Place place;
  std::optional<std::string> before;  ///< absent: there was no file
  void operator()() const {
    const auto dir = Dir::open(place.directory);
    if (!dir) return;
    if (before) {
      write(*dir, place.name, *before);
    } else {
      dir->remove(place.name);
    }
  }
  std::string describe() const { return cat("restore '", place.directory, "/", place.name, "'"); }
};

[[noreturn]] void fail(const std::string& path, const std::string& complaint) {
  throw cni::Error(cni::Code::kInvalidConfig,
                   cat("runtimeConfig.CNIDeviceInfoFile: ", complaint, ": \"", path, "\""));
}

// The file's new content; empty if the file may stay as it is.
std::optional<json> updated(const std::string& path, const std::string& text,
                            const std::string& pci) {
  json info = cni::try_parse_json(text);
  if (!info.is_object()) fail(path, "the file is no device information in JSON");
  if (info.value(kTypeKey, json(kPciKey)) != json(kPciKey))
    return std::nullopt;  // vdpa, memif, ...
  json& body = info[kPciKey];
  if (!body.is_null() && !body.is_object()) fail(path, "the file's key pci is no object");
  const json address = body.is_null() ? json() : body.value(kAddressKey, json());
  if (address == json(pci)) return std::nullopt;
  if (!address.is_null()) fail(path, cat("the file is of another device than ", pci));
  info[kTypeKey] = kPciKey;
  if (!info.contains(kVersionKey)) info[kVersionKey] = kVersion;
  body[kAddressKey] = pci;
  return info;
}

json info_of(const std::string& pci) {
  json body = {{kAddressKey, pci}};
  const std::string parent = physical_function_of(pci);
  if (!parent.empty()) body[kParentKey] = parent;
  return {{kTypeKey, kPciKey}, {kVersionKey, kVersion}, {kPciKey, std::move(body)}};
}

}  // namespace

void write_device_info(const std::string& path, const std::string& pci, cni::Undo& undo) {
  if (path.empty() || pci.empty()) return;
  const Place place = place_of(path);
  const Dir dir = Dir::create(place.directory);
  const auto file = dir.read(place.name);
  if (!file && dir.has(place.name)) fail(path, "not a regular file");
  const auto info = file ? updated(path, file->content, pci) : info_of(pci);
  if (!info) return;
  undo.add(RestoreInfo{place, file ? std::optional(file->content) : std::nullopt});
  write(dir, place.name, info->dump());
}

}  // namespace host_device

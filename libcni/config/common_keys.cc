#include "libcni/config/common_keys.h"

#include <algorithm>

#include "libcni/config/names.h"

namespace cni {

namespace {

struct Anything {};

bool is_type(const std::string& text) {
  return !text.empty() && text.find('/') == std::string::npos;
}

bool is_log_file(const std::string& text) { return text.starts_with('/') || text == "stderr"; }

constexpr Key kAttachments{.name = "cni.dev/valid-attachments",
                           .description = "for GC, from the runtime: attachments to keep",
                           .type = Type::kObject,
                           .lists = 1,
                           .keys = kAttachmentKeys,
                           .folded = true};

constexpr Key attachments_as(const char* name) {
  Key key = kAttachments;
  key.name = name;
  return key;
}

constexpr auto kIpamKeys =
    keys(described<Anything>({.name = "type", .description = "name of the IPAM plugin"}));

constexpr Key kCommon[] = {
    {.name = "cniVersion",
     .description = "version of the CNI spec for the config and the result",
     .default_text = "`0.1.0`",
     .type = Type::kEnum,
     .enumeration = kVersions,
     .or_empty = true},
    {.name = "name",
     .description = "network name; in a list a key beside `plugins`",
     .pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]*$",
     .fits = is_network_name,
     .expected = "a name of letters, digits, '_', '.' and '-' that begins with a letter or digit"},
    {.name = "type",
     .description = "name of the plugin's executable",
     .pattern = "^[^/]+$",
     .fits = is_type,
     .expected = "the name of an executable, without a slash"},
    {.name = "capabilities",
     .description =
         "values that the runtime passes in `runtimeConfig`: name of the capability and `true`",
     .type = Type::kObject,
     .open = true,
     .flags = true},
    {.name = "args",
     .description = "arguments from the runtime or the operator; those of the spec are in `cni`",
     .type = Type::kObject,
     .open = true},
    {.name = "dns", .description = "DNS of the network", .type = Type::kObject, .keys = kDnsKeys},
    {.name = "ipam",
     .description = "`type` names the IPAM plugin, which reads the other keys",
     .type = Type::kObject,
     .keys = kIpamKeys,
     .open = true},
    {.name = "prevResult",
     .description = "from the runtime: result of the previous plugin in the list",
     .type = Type::kObject,
     .open = true},
    {.name = "runtimeConfig",
     .description = "from the runtime: values of the declared `capabilities`",
     .type = Type::kObject,
     .open = true},
    {.name = "patchbayLog",
     .description =
         "log of the plugin, one line per call: absolute path of a file, or `stderr`. The "
         "environment variable `PATCHBAY_LOG` overrides it",
     .default_text = "no log",
     .pattern = "^(/.*|stderr)$",
     .fits = is_log_file,
     .expected = "the absolute path of a file, or \"stderr\"",
     .or_empty = true},
    kAttachments,
    attachments_as("cni.dev/attachments"),
};

Key* find(std::vector<Key>& keys, std::string_view name) {
  const auto it = std::ranges::find_if(keys, [name](const Key& key) { return key.name == name; });
  return it == keys.end() ? nullptr : &*it;
}

}  // namespace

void require_version_of(Version version, std::ptrdiff_t v4_count, std::ptrdiff_t v6_count) {
  if ((v4_count <= 1 && v6_count <= 1) || version >= Version::k0_3_0) return;
  throw Error(Code::kInvalidConfig, cat("CNI version ", str(version),
                                        " does not support more than 1 address per family"));
}

KeyList common_keys() { return kCommon; }

ConfigKeys::ConfigKeys(const Manual& manual)
    : keys_(manual.keys.begin(), manual.keys.end()), open_(manual.facts.has(Fact::kIpam)) {
  const bool delegates = open_ || find(keys_, "ipam") != nullptr;
  if (const Key* const runtime = find(keys_, "runtimeConfig")) {
    for (const Key& key : runtime->keys) {
      capabilities_.push_back(
          {.name = key.name, .description = key.description, .type = Type::kBool});
    }
  }
  for (const Key& key : kCommon) {
    if (find(keys_, key.name) == nullptr) keys_.push_back(key);
  }
  // A capability that nobody takes is probably misspelt; an IPAM plugin may take it.
  Key& capabilities = *find(keys_, "capabilities");
  capabilities.keys = {capabilities_.data(), capabilities_.size()};
  capabilities.open = delegates;
}

Key ConfigKeys::root() const {
  return {.type = Type::kObject, .keys = {keys_.data(), keys_.size()}, .open = open_};
}

}  // namespace cni

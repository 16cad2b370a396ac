#include "libcni/plugin/manual.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "libcni/config/key_schema.h"
#include "libcni/plugin/suite.h"

namespace cni {

namespace {

/// A line of the key table.
struct Row {
  std::string name, type, default_text, description;
};

std::string word_list(const Key& key) {
  std::string out;
  for (std::size_t i = 0; i < key.enumeration.size(); ++i) {
    out += cat(i == 0                           ? ""
               : i + 1 < key.enumeration.size() ? ", "
                                                : " or ",
               "`", key.enumeration[i], "`");
  }
  return out;
}

std::string range_of(const Key& key) {
  if (key.maximum < std::numeric_limits<std::uint32_t>::max()) {
    return cat(key.or_zero ? " 0 or " : " ", key.minimum, " to ", key.maximum);
  }
  if (key.minimum <= 0) return "";
  return cat(key.or_zero ? " 0 or at least " : " of at least ", key.minimum);
}

struct Noun {
  std::string one, many;
};

Noun noun_of(const Key& key) {
  switch (key.type) {
    case Type::kBool:
      return {"bool", "bools"};
    case Type::kBoolOrObject:
      return {"bool or object", "bools or objects"};
    case Type::kInteger:
      return {"integer" + range_of(key), "integers" + range_of(key)};
    case Type::kString:
      return {"string", "strings"};
    case Type::kEnum:
      return {word_list(key), word_list(key)};
    case Type::kIp:
    case Type::kIpOrCidr:
      return {"address", "addresses"};
    case Type::kCidr:
      return {"CIDR", "CIDRs"};
    case Type::kMac:
      return {"MAC address", "MAC addresses"};
    case Type::kIntegerOrString:
      return {"integer or string", "integers or strings"};
    case Type::kObject:
      return {"object", "objects"};
  }
  return {};
}

std::string type_of(const Key& key) {
  const Noun noun = noun_of(key);
  if (key.lists == 0) return noun.one;
  std::string out = "list of ";
  for (unsigned i = 1; i < key.lists; ++i) out += "lists of ";
  return out + noun.many;
}

void add_rows(std::vector<Row>& out, KeyList keys, const std::string& above) {
  for (const Key& key : keys) {
    const std::string name = above + key.name;
    const char* const absent = key.required ? "required" : "absent";
    if (key.description[0] != '\0') {
      out.push_back({cat("`", name, "`"), type_of(key),
                     key.default_text != nullptr ? key.default_text : absent, key.description});
    }
    if (key.folded) continue;
    std::string brackets;
    for (unsigned i = 0; i < key.lists; ++i) brackets += "[]";
    add_rows(out, key.keys, cat(name, brackets, "."));
  }
}

// Keys that the runtime sets are last, wherever they have to stand to be read in order.
std::vector<Row> rows_of(const Manual& manual) {
  std::vector<Row> out;
  std::vector<Key> sorted(manual.keys.begin(), manual.keys.end());
  std::stable_partition(sorted.begin(), sorted.end(), [](const Key& key) {
    return std::string_view(key.name) != "args" && std::string_view(key.name) != "runtimeConfig";
  });
  add_rows(out, {sorted.data(), sorted.size()}, "");
  for (const Key& key : manual.args) {
    out.push_back({cat("`", key.name, "` in `CNI_ARGS`"), type_of(key), "absent", key.description});
  }
  return out;
}

// Broken into lines that begin with blanks and end before column 80.
std::string indented(std::string_view text, std::size_t blanks) {
  constexpr std::size_t kColumns = 80;
  std::string out;
  while (!text.empty()) {
    std::size_t end = text.size();
    if (end > kColumns - blanks) {
      end = text.rfind(' ', kColumns - blanks);
      if (end == std::string_view::npos) end = std::min(text.find(' '), text.size());
    }
    out += cat(std::string(blanks, ' '), text.substr(0, end), "\n");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string keys_text(const Manual& manual) {
  std::string out;
  for (const Row& row : rows_of(manual)) {
    const bool said = row.default_text == "absent" || row.default_text == "required";
    const std::string other = cat(said ? "" : "default ", row.default_text);
    out += indented(plain(cat(row.name, "  (", row.type, "; ", other, ")")), 2);
    out += indented(plain(row.description), 6);
  }
  return out.empty() ? "  none of its own\n" : out;
}

std::string capabilities_text(const Manual& manual) {
  std::string out;
  for (const Key& key : manual.keys) {
    if (std::string_view(key.name) != "runtimeConfig") continue;
    for (const Key& capability : key.keys) out += cat(out.empty() ? "" : ", ", capability.name);
  }
  return out.empty() ? "none" : out;
}

std::string verbs_text(const Plugin& plugin) {
  std::string does;
  std::string skips;
  const auto sort = [&](const char* verb, bool there) {
    std::string& list = there ? does : skips;
    list += cat(list.empty() ? "" : ", ", verb);
  };
  sort("ADD", plugin.verbs.add != nullptr);
  sort("DEL", plugin.verbs.del != nullptr);
  sort("CHECK", plugin.verbs.check != nullptr);
  sort("GC", plugin.verbs.gc != nullptr);
  sort("STATUS", plugin.verbs.status != nullptr);
  sort("VERSION", true);
  return skips.empty() ? does : cat(does, "; without effect: ", skips);
}

constexpr std::string_view kOptions =
    "  --help      this help\n"
    "  --version   its version, and supported versions of the CNI spec\n"
    "  --schema    the JSON Schema of the config\n"
    "  --keys      the keys as a Markdown table\n"
    "  --validate  check the config on stdin as ADD would, without changes\n";

std::string subcommands_text(const Plugin& plugin) {
  std::string out;
  for (const Subcommand& one : plugin.subcommands) {
    out += cat(out.empty() ? "\nSubcommands, which have options of their own (-help):\n" : "", "  ",
               one.name, std::string(12 - std::min<std::size_t>(one.name.size(), 11), ' '),
               one.description, "\n");
  }
  return out;
}

bool is_of_patchbay(const Plugin& plugin) { return plugin.version.empty() && is_of_suite(plugin); }

// release follows the name: " plugin v1.2.0".
std::string described(const Plugin& plugin, std::string_view release) {
  std::string versions;
  for (const auto v : supported_versions()) versions += cat(versions.empty() ? "" : ", ", v);
  return cat("CNI ", plugin.name, release, "\nCNI protocol versions supported: ", versions);
}

std::string described(const Plugin& plugin) {
  return described(plugin, cat(" plugin", plugin.version.empty() ? "" : " ", plugin.version));
}

std::string documentation_of(const Plugin& plugin) {
  if (!plugin.documentation.empty()) return std::string(plugin.documentation);
  if (!is_of_suite(plugin)) return "";
  return cat("plugins/", plugin.name, "/README.md in the sources of patchbay");
}

const Manual& manual_of(const Plugin& plugin) {
  if (plugin.manual != nullptr) return *plugin.manual;
  throw std::invalid_argument("the plugin has no table of its keys");
}

std::string schema_text(const Plugin& plugin) {
  const std::string release =
      is_of_patchbay(plugin) ? cat("patchbay ", build_version()) : std::string(plugin.version);
  return schema_of(std::string(plugin.name), manual_of(plugin), release).dump(2) + "\n";
}

}  // namespace

std::string about(const Plugin& plugin) {
  if (!is_of_patchbay(plugin)) return described(plugin);
  return described(plugin, cat(" plugin v", kReferenceLevel, "+patchbay.", build_version()));
}

std::string version_text(const Plugin& plugin) {
  // The doctor of cnitool looks for these words in executables (kPatchbayMark).
  if (is_of_patchbay(plugin)) return described(plugin, cat(" plugin patchbay ", build_text()));
  return cat(described(plugin), "\nBuilt with libcni of patchbay ", build_text());
}

std::string key_table(const Manual& manual) {
  std::string out = "| key | type | default | description |\n|---|---|---|---|\n";
  for (const Row& row : rows_of(manual)) {
    out += cat("| ", row.name, " | ", row.type, " | ", row.default_text, " | ", row.description,
               " |\n");
  }
  return out;
}

std::string help(const Plugin& plugin) {
  std::string out = cat(version_text(plugin), "\n\n");
  if (plugin.manual != nullptr) {
    out += indented(cat(plugin.name, " ", plain(plugin.manual->purpose), "."), 0);
    out += "\n";
  }
  out += indented(
      "A container runtime executes it with the verb in CNI_COMMAND and the network config on "
      "stdin.",
      0);
  out += cat("Verbs: ", verbs_text(plugin), "\n");
  if (plugin.manual != nullptr) {
    out += cat("Capabilities: ", capabilities_text(*plugin.manual), "\n\nKeys of the config:\n",
               keys_text(*plugin.manual));
  }
  const std::string documentation = documentation_of(plugin);
  return cat(out, "\nOptions:\n", kOptions, subcommands_text(plugin),
             documentation.empty() ? "" : cat("\nDocumentation: ", documentation, "\n"));
}

std::string answer_to(const Plugin& plugin, std::string_view option) {
  if (option == "--help" || option == "-h") return help(plugin);
  if (option == "--version") return version_text(plugin) + "\n";
  if (option == "--keys") return key_table(manual_of(plugin));
  if (option == "--schema") return schema_text(plugin);
  throw std::invalid_argument(cat("unknown option '", option,
                                  "', expected --help, --version, --schema, --keys or --validate"));
}

}  // namespace cni

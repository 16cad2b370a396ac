#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcni/common/error.h"
#include "libcni/config/complaints.h"
#include "libcni/config/facts.h"
#include "libcni/config/json_value.h"
#include "libcni/plugin/request.h"

namespace tool {

/// A plugin's answer about a config (--validate).
struct Verdict {
  std::vector<cni::Complaint> complaints;  ///< all that its table of keys has against it
  std::optional<cni::Error> refusal;       ///< the first error of its parser
};

/// In which part, and with which CNI_ARGS, a plugin would be called.
struct PluginUse {
  bool is_ipam = false;  ///< as the one that "ipam" of the config names
  std::string args = {};
};

/// The answers of an executable about itself.
struct PluginFacts {
  std::string file;  ///< empty: it was not found
  std::vector<std::string> versions;
  cni::JsonValue schema;  ///< null: it does not describe its config
  std::string failure;    ///< why file or versions are not known
  /// Asks the plugin about a config that ADD would get. Empty where there is no schema.
  std::function<Verdict(const nlohmann::json& conf, const PluginUse& call)> judge = {};
};

/// The plugins of some directories. Each is asked once: for its versions (VERSION) and its schema
/// (--schema, with CNI_COMMAND=VERSION for those that know no options). Neither changes anything.
class Plugins {
 public:
  Plugins(std::string path, cni::Env env);
  /// Plugins of which all is known, by type: none is asked for these.
  explicit Plugins(std::map<std::string, PluginFacts, std::less<>> known)
      : known_(std::move(known)) {}

  /// \throws netlink::Error where a program cannot be run at all.
  const PluginFacts& of(const std::string& type);

  /// What it does, as its schema states, or as tool::facts_of() knows.
  cni::Facts facts_of(const std::string& type);

  /// PluginFacts::judge; nothing where the plugin does not know the option.
  Verdict judge(const std::string& type, const nlohmann::json& conf, const PluginUse& call);

  /// The name of an executable that may have been meant; empty where none is like it.
  std::string similar(const std::string& type) const;

 private:
  PluginFacts ask(const std::string& type) const;

  std::vector<std::string> path_;
  cni::Env env_;
  std::map<std::string, PluginFacts, std::less<>> known_;
};

}  // namespace tool

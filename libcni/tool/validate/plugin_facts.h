#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcni/error.h"
#include "libcni/request.h"

namespace tool {

/// What an executable says of itself.
struct PluginFacts {
  std::string file;  ///< empty: it was not found
  std::vector<std::string> versions;
  nlohmann::json schema;  ///< null: it does not describe its config
  std::string failure;    ///< why file or versions are not known
  /// What its own parser has against a config that ADD would get (--validate): nothing where it
  /// accepts it. Empty where there is nobody to ask.
  std::function<std::optional<cni::Error>(const nlohmann::json& conf)> refusal = {};
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

  /// PluginFacts::refusal: nothing where the plugin accepts the config, or does not know the
  /// option.
  std::optional<cni::Error> refusal(const std::string& type, const nlohmann::json& conf);

  /// The name of an executable that may have been meant; empty where none is like it.
  std::string similar(const std::string& type) const;

 private:
  PluginFacts ask(const std::string& type) const;

  std::vector<std::string> path_;
  cni::Env env_;
  std::map<std::string, PluginFacts, std::less<>> known_;
};

}  // namespace tool

#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libcni/config/complaints.h"
#include "libcni/config/key.h"

/// The config of the agent of blocks, names::kBlocksConfig.
namespace block_agent {

struct EtcdConf {
  std::vector<std::string> endpoints = {};   ///< "https://192.0.2.1:2379", tried in turn
  std::string ca = {}, cert = {}, key = {};  ///< paths of PEM files; "" ca: those of the system
  std::string username = {};
  std::string password_file = {};
  std::string prefix = "/patchbay";  ///< of all keys
};

struct KubernetesConf {
  std::string kubeconfig = {};  ///< path; "": as a pod of the cluster
};

struct Conf {
  using Time = std::chrono::milliseconds;

  std::string node = {};                          ///< never empty after parse()
  std::optional<KubernetesConf> kubernetes = {};  ///< one of the two
  std::optional<EtcdConf> etcd = {};
  Time idle = std::chrono::minutes(10);    ///< after which an empty block is returned
  Time node_gone = std::chrono::hours(1);  ///< without a Node object, its blocks are released
  Time settle = std::chrono::seconds(60);  ///< without claims after a restore of the engine

  /// \throws cni::Error that names the key, its value and what was expected.
  static Conf parse(const std::string& text);
  /// nullopt: the file does not exist. \throws as parse(), netlink::Error.
  static std::optional<Conf> find(const std::string& file);
};

/// The keys of the config, and its JSON Schema.
extern constinit const cni::Manual kBlocksManual;
nlohmann::ordered_json blocks_schema();

/// What --validate prints of a config: an empty object if it is right.
nlohmann::ordered_json judge(const std::string& text);

/// Where an endpoint of etcd is.
struct Endpoint {
  bool is_tls = true;
  std::string address = {};  ///< "192.0.2.1:2379", "[fd00::1]:2379", "etcd.example:2379"
  bool is_loopback = false;
};
/// nullopt: the text is no URL of http or https with a port, and nothing else.
std::optional<Endpoint> endpoint_in(const std::string& text);

}  // namespace block_agent

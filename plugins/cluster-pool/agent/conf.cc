#include "plugins/cluster-pool/agent/conf.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/config/common_keys.h"
#include "libcni/config/conf.h"
#include "libcni/config/json.h"
#include "libcni/config/key_schema.h"
#include "libcni/config/keys.h"
#include "libcni/daemon/duration.h"
#include "libcni/daemon/node_name.h"
#include "netlink/types/fd.h"
#include "netlink/types/ip.h"
#include "plugins/cluster-pool/agent/object.h"

namespace block_agent {

namespace {

using cni::cat;
using cni::Reader;
using cni::Type;

constexpr const char* kDurationForm = "a duration such as \"10m\", from 1s to 8760h";
constexpr const char* kDurationPattern = "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$";
constexpr const char* kEndpointForm =
    "http:// or https:// with a host and a port: \"https://192.0.2.1:2379\"";
constexpr const char* kPrefixForm = "a path such as /patchbay, without a slash at its end";

bool is_duration(const std::string& text) {
  const auto time = cni::parse_duration(text);
  return time && *time >= std::chrono::seconds(1) && *time <= std::chrono::hours(8760);
}

void read_duration(const Reader& place, Conf::Time& out) {
  const std::string text = place.as_string();
  if (!is_duration(text)) place.fail(cat("expected ", kDurationForm));
  out = *cni::parse_duration(text);
}
void read_idle(const Reader& place, Conf& conf) { read_duration(place, conf.idle); }
void read_node_gone(const Reader& place, Conf& conf) { read_duration(place, conf.node_gone); }
void read_settle(const Reader& place, Conf& conf) { read_duration(place, conf.settle); }

bool is_endpoint(const std::string& text) { return endpoint_in(text).has_value(); }
bool is_path(const std::string& text) { return text.starts_with('/'); }
bool is_prefix(const std::string& text) {
  return text.size() > 1 && text.size() <= 200 && text.starts_with('/') && !text.ends_with('/');
}
bool is_node(const std::string& text) { return is_node_name(text); }

void read_endpoints(const Reader& place, EtcdConf& conf) {
  for (const Reader& one : place.elements()) {
    if (!is_endpoint(one.as_string())) one.fail(cat("expected ", kEndpointForm));
    conf.endpoints.push_back(one.as_string());
  }
  if (conf.endpoints.empty()) place.fail("expected at least one endpoint");
}

template <auto Field>
constexpr auto path_key(const char* name, const char* description) {
  return cni::text<Field>({.name = name,
                           .description = description,
                           .pattern = "^/",
                           .fits = is_path,
                           .expected = "an absolute path"});
}

constexpr auto kEtcdKeys =
    cni::keys(cni::custom<read_endpoints>({.name = "endpoints",
                                           .description = "URLs of members, tried in turn",
                                           .type = Type::kString,
                                           .lists = 1,
                                           .pattern = "^https?://[^/?#@]+:[0-9]+/?$",
                                           .fits = is_endpoint,
                                           .expected = kEndpointForm,
                                           .required = true}),
              path_key<&EtcdConf::ca>("ca",
                                      "file with the certificates that members are verified by. "
                                      "Default: those of the system"),
              path_key<&EtcdConf::cert>("cert", "file with the client certificate"),
              path_key<&EtcdConf::key>("key", "file with its key"),
              cni::key<&EtcdConf::username>({.name = "username", .description = "user of etcd"}),
              path_key<&EtcdConf::password_file>(
                  "passwordFile", "file with the user's password, read for each login"),
              cni::text<&EtcdConf::prefix>({.name = "prefix",
                                            .description = "of all keys, the same on all nodes",
                                            .default_text = "`/patchbay`",
                                            .pattern = "^/.*[^/]$",
                                            .fits = is_prefix,
                                            .expected = kPrefixForm}));

constexpr auto kKubernetesKeys = cni::keys(path_key<&KubernetesConf::kubeconfig>(
    "kubeconfig",
    "file for the API server. Default: as a pod of the cluster, by its service account"));

void read_etcd(const Reader& place, Conf& conf) {
  cni::read_keys(place, kEtcdKeys, conf.etcd.emplace());
}
void read_kubernetes(const Reader& place, Conf& conf) {
  cni::read_keys(place, kKubernetesKeys, conf.kubernetes.emplace());
}

constexpr auto kEngineKeys =
    cni::keys(cni::custom<read_kubernetes>({.name = "kubernetes",
                                            .description = "the API server",
                                            .type = Type::kObject,
                                            .keys = kKubernetesKeys}),
              cni::custom<read_etcd>({.name = "etcd",
                                      .description = "etcd, version 3.4 and later",
                                      .type = Type::kObject,
                                      .keys = kEtcdKeys}));

void read_engine(const Reader& place, Conf& conf) {
  cni::read_keys(place, kEngineKeys, conf);
  if (conf.etcd.has_value() == conf.kubernetes.has_value()) {
    place.fail("expected one of kubernetes and etcd");
  }
}

constexpr auto kTopKeys = cni::keys(
    cni::text<&Conf::node>({.name = "node",
                            .description = "name of the node, unique in the cluster. Default: "
                                           "NODE_NAME of the environment, else the host's name in "
                                           "lower case",
                            .pattern = kNodePattern,
                            .fits = is_node,
                            .expected = "the name of a node: a DNS subdomain"}),
    cni::custom<read_engine>({.name = "engine",
                              .description = "what keeps the claims of all nodes",
                              .type = Type::kObject,
                              .keys = kEngineKeys,
                              .required = true}),
    cni::custom<read_idle>({.name = "idle",
                            .description = "a block that has been empty for this time is returned, "
                                           "if the node has another",
                            .default_text = "`10m`",
                            .type = Type::kString,
                            .pattern = kDurationPattern,
                            .fits = is_duration,
                            .expected = kDurationForm}),
    cni::custom<read_node_gone>(
        {.name = "nodeGone",
         .description = "Kubernetes: blocks of a node are released when its Node object has not "
                        "existed for this time",
         .default_text = "`1h`",
         .type = Type::kString,
         .pattern = kDurationPattern,
         .fits = is_duration,
         .expected = kDurationForm}),
    cni::custom<read_settle>(
        {.name = "settle",
         .description = "after the engine was restored from an older snapshot, no block is claimed "
                        "for this time, in which all nodes claim again what they have",
         .default_text = "`60s`",
         .type = Type::kString,
         .pattern = kDurationPattern,
         .fits = is_duration,
         .expected = kDurationForm}));

// What keys demand of each other.
void check(const Conf& conf) {
  const auto refuse = [](const std::string& text) {
    throw cni::Error(cni::Code::kInvalidConfig, text);
  };
  if (!is_node_name(conf.node)) {
    refuse(cat("node: expected the name of a node, a DNS subdomain: \"", conf.node, "\""));
  }
  if (!conf.etcd) return;
  const EtcdConf& etcd = *conf.etcd;
  if (etcd.cert.empty() != etcd.key.empty()) refuse("engine.etcd: cert and key go together");
  if (etcd.username.empty() != etcd.password_file.empty()) {
    refuse("engine.etcd: username and passwordFile go together");
  }
  for (const std::string& one : etcd.endpoints) {
    const auto endpoint = endpoint_in(one);
    if (!endpoint->is_tls && !endpoint->is_loopback && !etcd.username.empty()) {
      refuse(cat("engine.etcd.endpoints: '", one,
                 "' would send the password in clear text: expected https"));
    }
  }
}

std::vector<cni::Complaint> complaints_of(const nlohmann::json& doc) {
  return cni::complaints({.type = Type::kObject, .keys = kTopKeys}, doc);
}

}  // namespace

constinit const cni::Manual kBlocksManual{
    .purpose = "claims blocks of pools of the whole cluster for this node", .keys = kTopKeys};

std::optional<Endpoint> endpoint_in(const std::string& text) {
  Endpoint out;
  std::string_view rest = text;
  out.is_tls = rest.starts_with("https://");
  if (!out.is_tls && !rest.starts_with("http://")) return std::nullopt;
  rest.remove_prefix(out.is_tls ? 8 : 7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const auto colon = rest.rfind(':');
  if (colon == rest.npos || colon == 0 || rest.size() > 300) return std::nullopt;
  const std::string_view port = rest.substr(colon + 1);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size()) return std::nullopt;
  if (number == 0 || number > 65535) return std::nullopt;
  std::string_view host = rest.substr(0, colon);
  const bool is_v6 = host.starts_with('[') && host.ends_with(']');
  if (is_v6) host = host.substr(1, host.size() - 2);
  const auto ip = netlink::Ip::parse(host);
  if (is_v6 ? !ip || ip->is_v4() : !ip && !is_node_name(host)) return std::nullopt;
  out.is_loopback = ip ? ip->is_loopback() : host == "localhost";
  out.address = rest;
  return out;
}

Conf Conf::parse(const std::string& text) {
  const auto doc = cni::parse_json(text, "the config");
  const auto wrong = complaints_of(doc);
  if (!wrong.empty()) throw cni::Error(cni::Code::kInvalidConfig, wrong.front().str());
  Conf out;
  cni::read_keys(Reader(doc), kTopKeys, out);
  if (out.node.empty()) out.node = cni::node_name();
  check(out);
  return out;
}

std::optional<Conf> Conf::find(const std::string& file) {
  const auto text = netlink::read_regular_file(file);
  if (!text) return std::nullopt;
  return cni::during(cat("read '", file, "'"), [&] { return parse(*text); });
}

nlohmann::ordered_json blocks_schema() {
  return cni::schema_of_object(
      {.title = "patchbay-agent blocks",
       .description = cat("Config of patchbay-agent for pools of a cluster, patchbay ",
                          PATCHBAY_VERSION, ": ", cni::plain(kBlocksManual.purpose))},
      {.type = Type::kObject, .keys = kTopKeys});
}

nlohmann::ordered_json judge(const std::string& text) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  try {
    Conf::parse(text);
  } catch (const cni::Error& e) {
    out = {{"code", static_cast<unsigned>(e.code())}, {"msg", e.what()}};
  }
  const nlohmann::json doc = cni::try_parse_json(text);
  if (doc.is_discarded()) return out;
  if (const auto found = complaints_of(doc); !found.empty()) out["findings"] = cni::json_of(found);
  return out;
}

}  // namespace block_agent

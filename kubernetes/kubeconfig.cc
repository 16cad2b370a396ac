#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "kubernetes/access.h"
#include "kubernetes/base64.h"
#include "kubernetes/json.h"
#include "kubernetes/yaml.h"
#include "libcni/common/error.h"
#include "libcni/common/printable.h"
#include "netlink/types/fd.h"

// Keys: k8s.io/client-go/tools/clientcmd/api/v1.
namespace kubernetes {

namespace {

using cni::cat;

[[noreturn]] void refuse(const std::string& why, const std::string& hint = {}) {
  throw cni::Error(cni::Code::kInvalidConfig, cat("read kubeconfig: ", why), hint);
}

std::string member_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return {};
  if (!found->is_string()) refuse(cat("'", key, "' is not a string"));
  return found->get<std::string>();
}

// The member `kind` of the element of `list` that has the name.
Json element(const Json& config, const char* list, const char* kind, const std::string& name) {
  const auto elements = config.find(list);
  if (elements != config.end() && elements->is_array()) {
    for (const Json& one : *elements) {
      if (!one.is_object() || one.value("name", Json()) != Json(name)) continue;
      const auto found = one.find(kind);
      if (found == one.end() || found->is_null()) return Json::object();
      if (found->is_object()) return *found;
    }
  }
  refuse(cat("no ", kind, " '", cni::printable_text(name), "' in '", list, "'"));
}

std::string in_folder(const std::string& path, const std::string& folder) {
  return path.empty() || path.starts_with('/') ? path : cat(folder, "/", path);
}

class User {
 public:
  User(Json fields, std::string folder) : fields_(std::move(fields)), folder_(std::move(folder)) {}

  // `key`-data, which is base64, comes before the file.
  Pem pem(const std::string& key) const {
    const std::string data = member_of(fields_, (key + "-data").c_str());
    if (data.empty()) return {.file = in_folder(member_of(fields_, key.c_str()), folder_)};
    auto text = from_base64(data);
    if (!text) refuse(cat("'", key, "-data' is not base64"));
    return {.text = *std::move(text)};
  }
  std::string text(const char* key) const { return member_of(fields_, key); }
  std::string file(const char* key) const { return in_folder(text(key), folder_); }
  bool has(const char* key) const {
    const auto found = fields_.find(key);
    return found != fields_.end() && !found->is_null() && *found != Json(false) &&
           *found != Json("");
  }

 private:
  Json fields_;
  std::string folder_;
};

void require_supported(const User& cluster, const User& user) {
  if (cluster.has("insecure-skip-tls-verify")) {
    refuse("'insecure-skip-tls-verify': a server that is not verified would get the token",
           "name its CA in certificate-authority");
  }
  if (cluster.has("proxy-url")) refuse("'proxy-url' is not supported");
  if (user.has("exec")) {
    refuse("'exec': no program is run for credentials", "use a token, tokenFile or a certificate");
  }
  for (const char* const key :
       {"auth-provider", "username", "password", "as", "as-uid", "as-groups"}) {
    if (user.has(key)) {
      refuse(cat("'", key, "' is not supported"), "use a token, tokenFile or a certificate");
    }
  }
}

}  // namespace

Access parse_kubeconfig(const std::string& text, const std::string& folder) {
  const Json config = parse_yaml(text, "kubeconfig");
  if (!config.is_object()) refuse("not an object");
  if (const std::string kind = member_of(config, "kind"); !kind.empty() && kind != "Config") {
    refuse(cat("its kind is '", cni::printable_text(kind), "', not 'Config'"));
  }
  const std::string current = member_of(config, "current-context");
  if (current.empty()) refuse("no 'current-context'");
  const Json context = element(config, "contexts", "context", current);
  const User cluster(element(config, "clusters", "cluster", member_of(context, "cluster")), folder);
  const std::string name = member_of(context, "user");
  const User user(name.empty() ? Json::object() : element(config, "users", "user", name), folder);
  require_supported(cluster, user);
  Access out{.server = cluster.text("server"),
             .ca = cluster.pem("certificate-authority"),
             .server_name = cluster.text("tls-server-name"),
             .certificate = user.pem("client-certificate"),
             .key = user.pem("client-key"),
             .token_file = user.file("tokenFile"),
             .token = user.text("token"),
             .space = member_of(context, "namespace")};
  while (out.server.ends_with('/')) out.server.pop_back();
  require_safe(out);
  return out;
}

Access from_kubeconfig(const std::string& path) {
  const auto text = netlink::read_regular_file(path);
  if (!text) {
    throw cni::Error(cni::Code::kIoFailure, cat("read kubeconfig '", path, "': it does not exist"));
  }
  const auto slash = path.find_last_of('/');
  const std::string folder = slash == path.npos ? "." : path.substr(0, slash);
  return cni::during(cat("kubeconfig '", path, "'"),
                     [&] { return parse_kubeconfig(*text, folder); });
}

}  // namespace kubernetes

#include "kubernetes/access.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "libcni/common/error.h"
#include "libcni/common/printable.h"
#include "netlink/types/fd.h"

namespace kubernetes {

namespace {

using cni::cat;
using cni::Code;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') {
    throw cni::Error(Code::kInvalidEnvironment,
                     cat("find the API server: no variable ", name, ": not in a pod"),
                     "outside of one name a kubeconfig");
  }
  return value;
}

// The host of "host:port" or "[host]:port"; "" for another text.
std::string_view host_in(std::string_view authority) {
  const auto close = authority.find(']');
  if (authority.starts_with('[')) {
    return close == authority.npos ? "" : authority.substr(1, close - 1);
  }
  return authority.substr(0, authority.find(':'));
}

bool is_loopback(std::string_view host) {
  const bool is_numeric = host.find_first_not_of("0123456789.") == host.npos;
  return host == "localhost" || host == "::1" || (host.starts_with("127.") && is_numeric);
}

}  // namespace

Access in_cluster(const std::string& root) {
  const std::string folder = root + "/var/run/secrets/kubernetes.io/serviceaccount";
  std::string host = variable("KUBERNETES_SERVICE_HOST");
  const std::string port = variable("KUBERNETES_SERVICE_PORT");
  if (host.find(':') != host.npos) host = cat("[", host, "]");
  Access out{.server = cat("https://", host, ":", port),
             .ca = {.file = folder + "/ca.crt"},
             .token_file = folder + "/token"};
  std::string space = netlink::read_file(folder + "/namespace").value_or("");
  space.erase(std::min(space.find_first_of("\r\n"), space.size()));
  out.space = space;
  require_safe(out);
  return out;
}

void require_safe(const Access& access) {
  const auto refuse = [&](const std::string& why) {
    throw cni::Error(Code::kInvalidConfig,
                     cat("use API server '", cni::printable_text(access.server), "': ", why));
  };
  const bool is_secure = access.server.starts_with("https://");
  if (!is_secure && !access.server.starts_with("http://")) refuse("not a URL of https or http");
  const std::string_view rest =
      std::string_view(access.server).substr(access.server.find("//") + 2);
  const std::string_view authority = rest.substr(0, rest.find('/'));
  const std::string_view host = host_in(authority);
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:[]/~%";
  constexpr std::size_t kOfNames = 65;  // those before the colon
  if (host.empty() || access.server.find_first_not_of(kAllowed) != std::string::npos) {
    refuse("not a URL with a host, a port and a path alone");
  }
  if (access.server.ends_with('/')) refuse("a slash at its end");
  // It becomes the host of the URL, to which the token is sent.
  if (access.server_name.find_first_not_of(kAllowed.substr(0, kOfNames)) != std::string::npos) {
    refuse("the name of its certificate (tls-server-name) is no name of a host");
  }
  if (!is_secure && !is_loopback(host)) {
    refuse(
        "http is for a server on the loopback interface alone, as everybody on the way reads it");
  }
  if (access.certificate.empty() != access.key.empty()) {
    refuse("a client certificate without its key, or a key without one");
  }
}

}  // namespace kubernetes

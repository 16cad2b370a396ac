#include "plugins/cluster-pool/agent/etcd_hint.h"

#include "libcni/common/error.h"

namespace block_agent {

namespace {

using cni::cat;

// A server that ends the connection in the middle of the handshake says no reason.
std::string hint_of_closed(const std::string& endpoint, const EtcdConf& conf) {
  if (!endpoint.starts_with("https:")) return "if the server speaks TLS, write https://";
  const std::string other = "; if the server speaks no TLS, write http://";
  if (conf.cert.empty()) {
    return cat("if the server wants a client certificate, set engine.etcd.cert and key", other);
  }
  return cat("see whether the server trusts engine.etcd.cert '", conf.cert,
             "' and whether it expired: openssl x509 -noout -issuer -dates -in ", conf.cert, other);
}

std::string hint_of_certificate(const std::string& endpoint, const EtcdConf& conf) {
  const auto at = endpoint_in(endpoint);
  const std::string by = conf.ca.empty() ? "the system's certificates, as engine.etcd.ca is absent,"
                                         : cat("engine.etcd.ca '", conf.ca, "'");
  return cat(by, " did not sign the server's certificate, or it expired, or the clock is wrong: ",
             "openssl s_client -verify_return_error -connect ", at ? at->address : endpoint,
             conf.ca.empty() ? "" : cat(" -CAfile ", conf.ca), " </dev/null");
}

}  // namespace

std::string etcd_hint(const std::string& sentence, const std::string& endpoint,
                      const EtcdConf& conf) {
  const auto has = [&](const char* words) { return sentence.find(words) != std::string::npos; };
  if (has("Socket closed") || has("Endpoint read failed")) return hint_of_closed(endpoint, conf);
  if (has("certificate verify failed")) return hint_of_certificate(endpoint, conf);
  if (has("is not in peer certificate")) {
    return "write a name or address of the server's certificate to engine.etcd.endpoints";
  }
  if (has("user name is empty")) {
    return "etcd has users: set engine.etcd.username and passwordFile";
  }
  if (has("invalid user ID or password")) {
    return cat("engine.etcd.username is '", conf.username, "', passwordFile '", conf.password_file,
               "'");
  }
  if (has("permission denied")) {
    return cat("give a role of user '", conf.username,
               "' the prefix: etcdctl role grant-permission ROLE --prefix=true readwrite ",
               conf.prefix, "/");
  }
  if (has("Connection refused")) {
    return "no server listens there: see that etcd runs, and its --listen-client-urls";
  }
  return "";
}

}  // namespace block_agent

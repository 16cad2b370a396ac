#include "plugins/cluster-pool/agent/etcd_hint.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace block_agent {
namespace {

const EtcdConf kBare = {.endpoints = {"https://192.0.2.1:2379"}};

EtcdConf full() {
  EtcdConf out = kBare;
  out.ca = "/etc/ca.crt";
  out.cert = "/etc/client.crt";
  out.username = "agent";
  out.password_file = "/etc/password";
  out.prefix = "/lab";
  return out;
}

std::string hint(const std::string& sentence, const EtcdConf& conf = kBare) {
  return etcd_hint(sentence, conf.endpoints.front(), conf);
}

void check_words(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& one : words) CHECK_MESSAGE(text.find(one) != std::string::npos, one, ": ", text);
}

TEST_CASE("the other scheme and the client certificate, where the server ends the connection") {
  CHECK(etcd_hint("last error: Socket closed", "http://192.0.2.1:2379", kBare) ==
        "if the server speaks TLS, write https://");
  check_words(hint("Endpoint read failed"), {"engine.etcd.cert", "http://"});
  check_words(hint("Socket closed", full()),
              {"openssl x509 -noout -issuer -dates -in /etc/client.crt", "http://"});
}

TEST_CASE("the authority, and the command that says what is wrong with a certificate") {
  const std::string sentence = "error:0A000086:SSL routines::certificate verify failed";
  check_words(hint(sentence), {"engine.etcd.ca is absent", "-connect 192.0.2.1:2379 </dev/null"});
  check_words(hint(sentence, full()),
              {"engine.etcd.ca '/etc/ca.crt'", "clock", "-CAfile /etc/ca.crt"});
  check_words(hint("Peer name 192.0.2.1 is not in peer certificate"), {"engine.etcd.endpoints"});
}

TEST_CASE("the user, and the prefix that a role lacks") {
  check_words(hint("etcdserver: user name is empty"), {"engine.etcd.username"});
  check_words(hint("authentication failed, invalid user ID or password", full()),
              {"'agent'", "'/etc/password'"});
  check_words(hint("etcdserver: permission denied", full()), {"user 'agent'", "readwrite /lab/"});
}

TEST_CASE("nothing of other errors") { CHECK(hint("etcdserver: no leader").empty()); }

}  // namespace
}  // namespace block_agent

#include "kubernetes/access.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "libcni/common/error.h"
#include "tests/unit/surroundings.h"

using kubernetes::Access;
using kubernetes::in_cluster;
using kubernetes::parse_kubeconfig;

namespace {

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const cni::Error& e) {
    return e.what();
  }
  return "taken";
}

std::string config(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
         "clusters:\n- name: other\n  cluster: {server: \"https://other.example.org:1\"}\n- name: "
         "c\n  "
         "cluster:\n" +
         cluster +
         "contexts:\n- name: here\n  context: {cluster: c, user: u, namespace: shop}\n"
         "users:\n- name: u\n  user:\n" +
         user;
}

std::string refusal(const std::string& cluster, const std::string& user) {
  return refusal_of([&] { parse_kubeconfig(config(cluster, user), "/etc"); });
}

const std::string kCluster = "    server: https://api.example.org:6443/\n";
const std::string kToken = "    token: abc\n";

// Sets the variables of a pod, until it ends.
struct Pod {
  Pod(const char* host, const char* port) {
    ::setenv("KUBERNETES_SERVICE_HOST", host, 1);
    ::setenv("KUBERNETES_SERVICE_PORT", port, 1);
  }
  ~Pod() {
    ::unsetenv("KUBERNETES_SERVICE_HOST");
    ::unsetenv("KUBERNETES_SERVICE_PORT");
  }
  Pod(const Pod&) = delete;
  Pod& operator=(const Pod&) = delete;
};

}  // namespace

TEST_CASE("the current context names the cluster and the user") {
  const Access access = parse_kubeconfig(
      config(kCluster + "    certificate-authority: pki/ca.crt\n", kToken), "/etc/k");
  CHECK(access == Access{.server = "https://api.example.org:6443",
                         .ca = {.file = "/etc/k/pki/ca.crt"},
                         .token = "abc",
                         .space = "shop"});
}

TEST_CASE("data in a kubeconfig comes before files") {
  const Access access = parse_kubeconfig(
      config(kCluster + "    certificate-authority-data: Q0EK\n    certificate-authority: x\n    "
                        "tls-server-name: api\n",
             "    client-certificate-data: Q0VSVAo=\n    client-key: /k\n    tokenFile: t\n"),
      "/etc");
  CHECK(access.ca.text == "CA\n");
  CHECK(access.certificate.text == "CERT\n");
  CHECK(access.key.file == "/k");
  CHECK(access.token_file == "/etc/t");
  CHECK(access.server_name == "api");
}

TEST_CASE("a kubeconfig that needs a program, or is not safe, is refused with the key") {
  CHECK(refusal(kCluster, "    exec: {command: aws}\n").find("'exec'") != std::string::npos);
  CHECK(refusal(kCluster, "    auth-provider: {name: gcp}\n").find("'auth-provider'") !=
        std::string::npos);
  CHECK(refusal(kCluster, "    username: a\n    password: b\n").find("'username'") !=
        std::string::npos);
  CHECK(refusal(kCluster, kToken + "    as: root\n").find("'as'") != std::string::npos);
  CHECK(refusal(kCluster + "    insecure-skip-tls-verify: true\n", kToken)
            .find("'insecure-skip-tls-verify'") != std::string::npos);
  CHECK(refusal(kCluster + "    insecure-skip-tls-verify: false\n", kToken) == "taken");
  CHECK(refusal(kCluster + "    proxy-url: http://p.example.org\n", kToken).find("'proxy-url'") !=
        std::string::npos);
  CHECK(refusal("    server: http://api.example.org\n", kToken).find("loopback") !=
        std::string::npos);
  CHECK(refusal("    server: http://127.0.0.1.example.org\n", kToken).find("loopback") !=
        std::string::npos);
  CHECK(refusal("    server: http://127.0.0.1:8001\n", kToken) == "taken");
  CHECK(refusal("    server: http://[::1]:8001\n", kToken) == "taken");
  CHECK(refusal("    server: file:///etc/shadow\n", kToken).find("not a URL") != std::string::npos);
  CHECK(refusal("    server: https://localhost@b\n", kToken).find("not a URL") !=
        std::string::npos);
  for (const char* const name : {"evil/", "a:1", "a@b", "\"a b\""}) {
    CHECK(
        refusal(kCluster + "    tls-server-name: " + name + "\n", kToken).find("tls-server-name") !=
        std::string::npos);
  }
  CHECK(refusal(kCluster, "    client-certificate: /c\n").find("without its key") !=
        std::string::npos);
}

TEST_CASE("a kubeconfig without what it names is refused") {
  const auto parse = [](const char* text) {
    return refusal_of([&] { parse_kubeconfig(text, "/"); });
  };
  CHECK(parse("") == "read kubeconfig: not an object");
  CHECK(parse("kind: Pod") == "read kubeconfig: its kind is 'Pod', not 'Config'");
  CHECK(parse("{}") == "read kubeconfig: no 'current-context'");
  CHECK(parse("current-context: x") == "read kubeconfig: no context 'x' in 'contexts'");
  CHECK(parse("{current-context: x, contexts: [{name: x, context: {cluster: 7}}]}") ==
        "read kubeconfig: 'cluster' is not a string");
  CHECK(parse("{current-context: x, contexts: [1, {name: x}]}") ==
        "read kubeconfig: no cluster '' in 'clusters'");
  CHECK(parse("a: [").starts_with("read kubeconfig: line "));
}

TEST_CASE("a kubeconfig that does not exist is an error with its path") {
  CHECK(refusal_of([] { kubernetes::from_kubeconfig("/no/such"); }) ==
        "read kubeconfig '/no/such': it does not exist");
}

TEST_CASE("a pod finds the API server by its environment") {
  const surroundings::Folder folder;
  const std::string at = folder.path() + "/var/run/secrets/kubernetes.io/serviceaccount";
  std::filesystem::create_directories(at);
  std::ofstream(at + "/namespace") << "kube-system\n";
  CHECK(refusal_of([&] { in_cluster(folder.path()); }).find("KUBERNETES_SERVICE_HOST") !=
        std::string::npos);
  {
    const Pod pod("10.96.0.1", "443");
    CHECK(in_cluster(folder.path()) == Access{.server = "https://" + std::string("10.96.0.1:443"),
                                              .ca = {.file = at + "/ca.crt"},
                                              .token_file = at + "/token",
                                              .space = "kube-system"});
  }
  const Pod pod("fd00::1", "6443");
  CHECK(in_cluster(folder.path()).server == "https://[fd00::1]:6443");
}

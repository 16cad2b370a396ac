#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/portmap/iptables/chains.h"
#include "plugins/portmap/iptables/rules.h"
#include "tests/netns/node.h"

/// What the tests of portmap's iptables backend have in common: a namespace with one of the two
/// iptables, and a container in it.
namespace test {

using namespace portmap;
using netlink::cat;
using netlink::nf::NfSocket;

inline constexpr const char* kVariants[] = {"nft", "legacy"};

using node::contains;
using node::count;
using node::run;

/// Without what iptables says of tables of the other iptables.
inline std::string output_of(const std::string& command) {
  return node::output_of(cat("{ ", command, "; } 2>/dev/null"));
}

// A directory in which the plain names are one of the two, in front of PATH.
class Tools {
 public:
  explicit Tools(const std::string& variant) {
    char name[] = "/tmp/portmap_iptables.XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    directory_ = name;
    for (const std::string family : {"iptables", "ip6tables"}) {
      for (const std::string tool : {"", "-save", "-restore"}) {
        const std::string real = cat("/usr/sbin/", family, "-", variant, tool);
        if (::access(real.c_str(), X_OK) != 0) return;
        REQUIRE(::symlink(real.c_str(), cat(directory_, "/", family, tool).c_str()) == 0);
      }
    }
    path_ = ::getenv("PATH");
    ::setenv("PATH", cat(directory_, ":", path_).c_str(), 1);
    there_ = true;
  }
  Tools(const Tools&) = delete;
  Tools& operator=(const Tools&) = delete;
  ~Tools() {
    if (there_) ::setenv("PATH", path_.c_str(), 1);
    run(cat("rm -r ", directory_));
  }
  bool there() const { return there_; }

 private:
  std::string directory_, path_;
  bool there_ = false;
};

// A fresh namespace, and one of the two iptables.
struct Node {
  explicit Node(const std::string& variant) : tools(variant) {
    REQUIRE(node::enter_own_namespace());
    if (!tools.there()) MESSAGE("SKIP: no iptables-" << variant << " here");
    socket.emplace();
  }
  bool there() const { return tools.there(); }

  Tools tools;
  std::optional<NfSocket> socket;
};

// Both families' rules and users' chains: no counters, no dates.
inline std::string saved() {
  return output_of(
      "iptables-save | grep -e '^[*]' -e '^:CNI' -e '^-A' | LC_ALL=C sort -s -k1,2;"
      "echo v6; ip6tables-save | grep -e '^[*]' -e '^:CNI' -e '^-A' | LC_ALL=C sort -s -k1,2");
}

inline PodAddresses pod(int host = 5) {
  return {*Cidr::parse(cat("10.1.1.", host, "/24")), *Cidr::parse(cat("fd07::", host, "/64"))};
}

inline Attachment attachment(const std::string& id, const std::vector<Mapping>& mappings,
                             const PodAddresses& addresses = pod()) {
  Attachment out;
  out.owner = {"net1", id, "eth0"};
  out.backend = BackendName::kIptables;
  out.pod = addresses;
  out.claims = claims_of(mappings, addresses);
  return out;
}

inline const std::vector<Mapping> kThree = {
    {8000, 80, Protocol::kTcp},
    {8001, 81, Protocol::kSctp, Ip::parse("192.0.2.1")},
    {8002, 82, Protocol::kUdp},
};
inline constexpr const char* kChain = "CNI-DN-c2d892b58e87e28a12fe6";  // net1, c1

}  // namespace test

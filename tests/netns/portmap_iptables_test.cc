// In a network namespace of its own, with either iptables: what portmap's iptables backend leaves
// in the kernel, as iptables-save sees it. Needs root; exits with 77 where it may not unshare.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "libcni/error.h"
#include "netlink/nf/socket.h"
#include "plugins/portmap/iptables.h"
#include "plugins/portmap/iptables_rules.h"

using namespace portmap;
using netlink::cat;
using netlink::nf::NfSocket;

namespace {

bool enter_own_namespace() { return ::unshare(CLONE_NEWNET) == 0; }

std::string output_of(const std::string& command) {
  std::string out;
  std::FILE* const pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer;
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    out.append(buffer.data(), size);
  }
  ::pclose(pipe);
  return out;
}

bool run(const std::string& command) { return std::system(command.c_str()) == 0; }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

bool contains(const std::string& text, const std::string& part) { return count(text, part) != 0; }

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
    REQUIRE(enter_own_namespace());
    if (!tools.there()) MESSAGE("SKIP: no iptables-" << variant << " here");
    socket.emplace();
  }
  bool there() const { return tools.there(); }

  Tools tools;
  std::optional<NfSocket> socket;
};

// Both families' rules and users' chains: no counters, no dates.
std::string saved() {
  return output_of(
      "iptables-save | grep -e '^[*]' -e '^:CNI' -e '^-A' | LC_ALL=C sort -s -k1,2;"
      "echo v6; ip6tables-save | grep -e '^[*]' -e '^:CNI' -e '^-A' | LC_ALL=C sort -s -k1,2");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

PodAddresses pod(int host = 5) {
  return {*Cidr::parse(cat("10.1.1.", host, "/24")), *Cidr::parse(cat("fd07::", host, "/64"))};
}

Attachment attachment(const std::string& id, const std::vector<Mapping>& mappings,
                      const PodAddresses& addresses = pod()) {
  Attachment out;
  out.owner = {"net1", id, "eth0"};
  out.backend = Backend::kIptables;
  out.claims = claims_of(mappings, addresses);
  return out;
}

const std::vector<Mapping> kThree = {
    {8000, 80, Protocol::kTcp},
    {8001, 81, Protocol::kSctp, Ip::parse("192.0.2.1")},
    {8002, 82, Protocol::kUdp},
};
constexpr const char* kChain = "CNI-DN-c2d892b58e87e28a12fe6";  // net1, c1

// Runs fn(0) to fn(n - 1) in processes of their own at once; true if none fails.
bool at_once(int n, const std::function<void(int)>& fn) {
  std::vector<pid_t> children;
  for (int i = 0; i < n; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      try {
        fn(i);
        ::_exit(0);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "child %d: %s\n", i, e.what());
        ::_exit(1);
      }
    }
    children.push_back(pid);
  }
  bool ok = true;
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    ok = ok && status == 0;
  }
  return ok;
}

// As the caller of add() does it.
struct Lock {
  explicit Lock(const char* file) : fd(::open(file, O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
    ::flock(fd, LOCK_EX);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { ::close(fd); }
  int fd;
};

constexpr const char* kVariants[] = {"nft", "legacy"};

// For every rule of iptables-save: without it, missing() must say so, and say it of that rule.
void delete_one_by_one(Node& node, const char* tool, const Attachment& a) {
  const auto rules = lines_of(output_of(cat(tool, "-save")));
  std::string table;
  std::size_t deleted = 0;
  for (const std::string& rule : rules) {
    if (rule.starts_with("*")) table = rule.substr(1);
    if (!rule.starts_with("-A ")) continue;
    INFO(tool, " -t ", table, " -D ", rule.substr(3));
    REQUIRE(run(cat(tool, "-save > /tmp/portmap_iptables.", ::getpid())));
    REQUIRE(run(cat(tool, " -t ", table, " -D ", rule.substr(3))));
    const auto why = iptables::missing(&*node.socket, a, pod());
    REQUIRE(why);
    // iptables-save does not quote a comment of one word.
    const std::string part = rule.substr(rule.rfind(" -j "));
    CHECK_MESSAGE(contains(*why, part), *why);
    REQUIRE(run(cat(tool, "-restore < /tmp/portmap_iptables.", ::getpid())));
    ++deleted;
  }
  ::unlink(cat("/tmp/portmap_iptables.", ::getpid()).c_str());
  CHECK(deleted > 10);
  CHECK(!iptables::missing(&*node.socket, a, pod()));
}

}  // namespace

TEST_CASE("the rules are the reference's, and some that it lacks") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    const Attachment a = attachment("c1", kThree);
    iptables::add(&*node.socket, a, pod());
    const std::string v4 =
        output_of("iptables-save -t nat | grep -e ^-A | grep -e CNI-DN | LC_ALL=C sort -s -k2,2");
    CHECK(v4 ==
          R"(-A CNI-DN-c2d892b58e87e28a12fe6 -d 127.0.0.0/8 ! -o lo -j RETURN
-A CNI-DN-c2d892b58e87e28a12fe6 -s 127.0.0.0/8 ! -o lo -j RETURN
-A CNI-DN-c2d892b58e87e28a12fe6 -s 10.1.1.0/24 -p tcp -m tcp --dport 8000 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -s 127.0.0.1/32 -p tcp -m tcp --dport 8000 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -p tcp -m tcp --dport 8000 -j DNAT --to-destination 10.1.1.5:80
-A CNI-DN-c2d892b58e87e28a12fe6 -s 10.1.1.0/24 -d 192.0.2.1/32 -p sctp -m sctp --dport 8001 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -s 127.0.0.1/32 -d 192.0.2.1/32 -p sctp -m sctp --dport 8001 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -d 192.0.2.1/32 -p sctp -m sctp --dport 8001 -j DNAT --to-destination 10.1.1.5:81
-A CNI-DN-c2d892b58e87e28a12fe6 -s 10.1.1.0/24 -p udp -m udp --dport 8002 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -s 127.0.0.1/32 -p udp -m udp --dport 8002 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -p udp -m udp --dport 8002 -j DNAT --to-destination 10.1.1.5:82
-A CNI-HOSTPORT-DNAT -p sctp -m comment --comment "dnat name: \"net1\" id: \"c1\"" -m multiport --dports 8001 -j CNI-DN-c2d892b58e87e28a12fe6
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"net1\" id: \"c1\"" -m multiport --dports 8000 -j CNI-DN-c2d892b58e87e28a12fe6
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"net1\" id: \"c1\"" -m multiport --dports 8002 -j CNI-DN-c2d892b58e87e28a12fe6
)");
    CHECK(output_of("iptables-save -t filter | grep ^-A") ==
          R"(-A INPUT -j CNI-HOSTPORT-GUARD
-A CNI-HOSTPORT-GUARD -d 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A CNI-HOSTPORT-GUARD -s 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
)");
    CHECK(!contains(output_of("ip6tables-save"), "*filter"));
    CHECK(!iptables::missing(&*node.socket, a, pod()));
    CHECK(iptables::owners(&*node.socket, "net1") == std::vector<Owner>{{"net1", "c1", ""}});
    CHECK(iptables::owners(&*node.socket, "net").empty());
  }
}

TEST_CASE("an ADD again changes nothing, one with other ports replaces, twice removed is removed") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    iptables::add(&*node.socket, attachment("other", {{9000, 90}}, pod(9)), pod(9));
    const std::string before = saved();
    iptables::add(&*node.socket, attachment("c1", kThree), pod());
    const std::string first = saved();
    iptables::add(&*node.socket, attachment("c1", kThree), pod());
    CHECK(saved() == first);

    const Attachment changed = attachment("c1", {{8000, 80}, {8443, 443}}, pod(6));
    iptables::add(&*node.socket, changed, pod(6));
    const std::string second = saved();
    CHECK(!contains(second, "10.1.1.5"));
    CHECK(!contains(second, "8002"));
    CHECK(count(second, "--to-destination 10.1.1.6:443") == 1);
    CHECK(count(second, cat("--dports 8000,8443 -j ", kChain)) == 2);
    CHECK(!iptables::missing(&*node.socket, changed, pod(6)));
    CHECK(iptables::missing(&*node.socket, attachment("c1", kThree), pod()));

    // Without IPv6 now.
    const PodAddresses v4_only{pod().v4, {}};
    iptables::add(&*node.socket, attachment("c1", kThree, v4_only), v4_only);
    CHECK(!contains(output_of("ip6tables-save"), kChain));

    iptables::remove(&*node.socket, changed.owner);
    CHECK(saved() == before);
    iptables::remove(&*node.socket, changed.owner);
    CHECK(saved() == before);
    CHECK(iptables::missing(&*node.socket, changed, pod(6)));
  }
}

TEST_CASE("every single rule is missed") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    const Attachment a = attachment("c1", kThree);
    iptables::add(&*node.socket, a, pod());
    delete_one_by_one(node, "iptables", a);
    delete_one_by_one(node, "ip6tables", a);
    REQUIRE(run(cat("iptables -t nat -A ", kChain, " -p tcp -j RETURN")));
    CHECK(contains(iptables::missing(&*node.socket, a, pod()).value_or(""), "other rules"));
  }
}

TEST_CASE("an ADD repairs what is missing of what all share") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    const Attachment a = attachment("c1", kThree);
    iptables::add(&*node.socket, a, pod());
    const std::string whole = saved();
    REQUIRE(run("iptables -t nat -F POSTROUTING && iptables -F CNI-HOSTPORT-GUARD"));
    REQUIRE(run("iptables -t nat -F PREROUTING && iptables -t nat -F CNI-HOSTPORT-MASQ"));
    REQUIRE(run("ip6tables -t nat -F OUTPUT && ip6tables -t nat -F CNI-HOSTPORT-SETMARK"));
    iptables::add(&*node.socket, a, pod());
    CHECK(saved() == whole);
  }
}

TEST_CASE("two mark bits are two rules, and the rest is shared") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    Attachment a = attachment("c1", kThree);
    iptables::add(&*node.socket, a, pod());
    a.owner.container_id = "c2";
    a.options.mark_bit = 31;
    for (int i = 0; i < 2; ++i) iptables::add(&*node.socket, a, pod());
    const std::string all = output_of("iptables-save");
    CHECK(count(all, "-A CNI-HOSTPORT-SETMARK") == 2);
    CHECK(count(all, "-A CNI-HOSTPORT-MASQ") == 2);
    CHECK(contains(all, "--set-xmark 0x80000000/0x80000000"));
    CHECK(count(all, "-A POSTROUTING") == 1);
    CHECK(!iptables::missing(&*node.socket, a, pod()));
  }
}

TEST_CASE("rules and chains of others survive, in their places") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    REQUIRE(run("iptables -t nat -N CNI-HOSTPORT-DNAT"));
    for (const char* const chain : {"PREROUTING", "POSTROUTING", "OUTPUT", "CNI-HOSTPORT-DNAT"}) {
      REQUIRE(run(cat("iptables -t nat -A ", chain, " -s 203.0.113.1 -j ACCEPT")));
    }
    REQUIRE(run("iptables -A INPUT -s 203.0.113.1 -j ACCEPT"));
    const std::string canaries = output_of("iptables-save | grep 203");
    iptables::add(&*node.socket, attachment("c1", kThree), pod());
    REQUIRE(run("iptables -t nat -A CNI-HOSTPORT-DNAT -s 203.0.113.2 -j ACCEPT"));
    iptables::add(&*node.socket, attachment("c2", {{9000, 90}}), pod());
    iptables::add(&*node.socket, attachment("c1", {{8000, 80}}), pod());
    CHECK(output_of("iptables-save | grep 203 | grep -v 113.2") == canaries);
    CHECK(output_of("iptables -t nat -S POSTROUTING 1") ==
          "-A POSTROUTING -m comment --comment \"CNI portfwd requiring masquerade\" -j "
          "CNI-HOSTPORT-MASQ\n");
    CHECK(output_of("iptables -S INPUT 1") == "-A INPUT -j CNI-HOSTPORT-GUARD\n");
    iptables::remove(&*node.socket, {"net1", "c1", "eth0"});
    iptables::remove(&*node.socket, {"net1", "c2", "eth0"});
    CHECK(output_of("iptables-save | grep 203 | grep -v 113.2") == canaries);
    CHECK(contains(output_of("iptables-save"), "203.0.113.2"));
    CHECK(!contains(saved(), "CNI-DN"));
  }
}

// Chains as the reference, and plugins of long ago, made them; entries more than once, and with a
// condition that has no words here.
void restore_as_reference() {
  const std::string snat = iptables::obsolete_chain_of({"net1", "c1", ""});
  const std::string entry = cat("-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment ",
                                R"("dnat name: \"net1\" id: \"c1\"" -m multiport --dports 8000 )",
                                "-i eth7 -m limit --limit 1/sec -j ", kChain, "\n");
  const std::string rules = cat(
      "*nat\n:CNI-HOSTPORT-DNAT - [0:0]\n:CNI-HOSTPORT-SNAT - [0:0]\n:", kChain,
      " - [0:0]\n:", snat, " - [0:0]\n", entry, "-A CNI-HOSTPORT-DNAT -p icmp -j RETURN\n", entry,
      entry, "-A ", kChain, " -p tcp -m tcp --dport 8000 -j DNAT --to-destination 10.1.1.5:80\n",
      "-A CNI-HOSTPORT-SNAT -j ", snat, "\n-A ", snat, " -j MASQUERADE\nCOMMIT\n");
  ::setenv("RULES", rules.c_str(), 1);
  REQUIRE(run("printf '%s' \"$RULES\" | iptables-restore --noflush"));
}

TEST_CASE("what the reference and its ancestors left is removed, however often it is there") {
  for (const char* const variant : kVariants) {
    for (const bool add_first : {false, true}) {
      Node node(variant);
      if (!node.there()) continue;
      restore_as_reference();
      CHECK(iptables::owners(&*node.socket, "net1").size() == 1);
      const Attachment a = attachment("c1", kThree);
      if (add_first) {
        iptables::add(&*node.socket, a, pod());
        CHECK(!contains(output_of("iptables-save"), "eth7"));
        CHECK(!iptables::missing(&*node.socket, a, pod()));
      }
      iptables::remove(&*node.socket, a.owner);
      const std::string left = output_of("iptables-save -t nat");
      CHECK(!contains(left, "CNI-DN"));
      CHECK(!contains(left, "CNI-SN"));
      CHECK(contains(left, "-A CNI-HOSTPORT-DNAT -p icmp -j RETURN"));
    }
  }
}

TEST_CASE("entries that moved since they were seen: nothing is done at all") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    const Attachment a = attachment("c1", {{8000, 80}});
    iptables::add(&*node.socket, a, pod());
    REQUIRE(run("iptables -t nat -I CNI-HOSTPORT-DNAT 1 -p icmp -j RETURN"));
    const std::string before = saved();
    const std::string wrong = iptables::rules_to_remove({{"CNI-HOSTPORT-DNAT", kChain, {1}}});
    ::setenv("RULES", wrong.c_str(), 1);
    CHECK(!run("printf '%s' \"$RULES\" | iptables-restore --noflush 2>/dev/null"));
    CHECK(saved() == before);
  }
}

TEST_CASE("rules in the other iptables are replaced, and removed") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    const Attachment a = attachment("c1", kThree);
    iptables::add(&*node.socket, a, pod());
    const std::string other = variant == std::string("nft") ? "legacy" : "nft";
    {
      const Tools tools(other);
      if (!tools.there()) continue;
      iptables::add(&*node.socket, a, pod());
      CHECK(contains(saved(), kChain));
      CHECK(!iptables::missing(&*node.socket, a, pod()));
    }
    CHECK(!contains(saved(), kChain));
    iptables::remove(&*node.socket, a.owner);
    const Tools tools(other);
    CHECK(!contains(saved(), kChain));
  }
}

TEST_CASE("conditions are in the rules that lead there") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    Attachment a = attachment("c1", kThree);
    a.options.conditions_v4 = {"!", "-s", "192.0.2.0/24", "-m", "limit", "--limit", "1/sec"};
    a.options.conditions_v6 = {"-i", "eth0"};
    for (int i = 0; i < 2; ++i) iptables::add(&*node.socket, a, pod());
    const std::string all = saved();
    CHECK(count(all, "-A CNI-HOSTPORT-DNAT ! -s 192.0.2.0/24 -p ") == 3);
    CHECK(count(all, "-A CNI-HOSTPORT-DNAT -i eth0 -p ") == 2);
    CHECK(!iptables::missing(&*node.socket, a, pod()));
    REQUIRE(run("iptables -t nat -D CNI-HOSTPORT-DNAT 2"));
    CHECK(contains(iptables::missing(&*node.socket, a, pod()).value_or(""), "--dports 8000"));
  }
}

TEST_CASE("a refusal leaves nothing of the container in either family") {
  for (const char* const variant : kVariants) {
    for (const bool first : {true, false}) {
      Node node(variant);
      if (!node.there()) continue;
      Attachment a = attachment("c1", kThree);
      (first ? a.options.conditions_v4 : a.options.conditions_v6) = {"--nonsense"};
      CHECK_THROWS_AS(iptables::add(&*node.socket, a, pod()), cni::Error);
      CHECK(!contains(saved(), "CNI-DN"));
    }
  }
}

TEST_CASE("a mark chain of others has to be there") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    Attachment a = attachment("c1", kThree);
    a.options.external_set_mark_chain = "KUBE-MARK-MASQ";
    REQUIRE(run("iptables -t nat -N KUBE-MARK-MASQ"));
    const std::string before = saved();
    try {
      iptables::add(&*node.socket, a, pod());
      FAIL("the ADD passed");
    } catch (const cni::Error& e) {
      CHECK(e.code() == cni::Code::kInvalidConfig);
      CHECK(std::string(e.what()) ==
            "externalSetMarkChain: ip6tables has no chain 'KUBE-MARK-MASQ' in table nat");
    }
    CHECK(saved() == before);
    REQUIRE(run("ip6tables -t nat -N KUBE-MARK-MASQ"));
    iptables::add(&*node.socket, a, pod());
    CHECK(!iptables::missing(&*node.socket, a, pod()));
    CHECK(count(saved(), "-j KUBE-MARK-MASQ") == 8);
    CHECK(!contains(saved(), "SETMARK"));
    CHECK(contains(saved(), "CNI-HOSTPORT-GUARD"));
  }
}

TEST_CASE("8 first ADDs at once, under the callers' lock, leave one set of shared rules") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    const std::string file = cat("/tmp/portmap_iptables.lock.", ::getpid());
    CHECK(at_once(8, [&](int i) {
      const Lock lock(file.c_str());
      NfSocket socket;
      const auto port = static_cast<std::uint16_t>(9000 + i);
      iptables::add(&socket, attachment(cat("p", i), {{port, 80}}), pod());
    }));
    ::unlink(file.c_str());
    const std::string all = saved();
    CHECK(count(all, "-A PREROUTING") == 2);
    CHECK(count(all, "-A OUTPUT") == 2);
    CHECK(count(all, "-A POSTROUTING") == 2);
    CHECK(count(all, "-A CNI-HOSTPORT-SETMARK") == 2);
    CHECK(count(all, "-A CNI-HOSTPORT-MASQ") == 2);
    CHECK(count(all, "-A CNI-HOSTPORT-GUARD") == 2);
    CHECK(count(all, "-A INPUT") == 1);
    CHECK(count(all, "-A CNI-HOSTPORT-DNAT") == 16);
  }
}

TEST_CASE("8 first ADDs at once without any lock lose nothing, nor do their DELs") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    const auto one = [&](int i) {
      return attachment(cat("p", i), {{static_cast<std::uint16_t>(9000 + i), 80}});
    };
    CHECK(at_once(8, [&](int i) {
      NfSocket socket;
      iptables::add(&socket, one(i), pod());
    }));
    CHECK(count(saved(), "-A CNI-HOSTPORT-DNAT") == 16);
    for (int i = 0; i < 8; ++i) {
      CHECK(iptables::missing(&*node.socket, one(i), pod()).value_or("") == "");
    }
    CHECK(at_once(8, [&](int i) {
      NfSocket socket;
      iptables::remove(&socket, one(i).owner);
    }));
    CHECK(!contains(saved(), "CNI-DN"));
  }
}

TEST_CASE("nothing there: a DEL leaves no table behind, and without nf_tables it works as well") {
  const Node node("nft");
  NfSocket socket;
  iptables::remove(&socket, {"net1", "c1", "eth0"});
  iptables::remove(nullptr, {"net1", "c1", "eth0"});
  CHECK(output_of("nft list ruleset").empty());
  CHECK(iptables::owners(&socket, "net1").empty());
  CHECK(!iptables::unusable());
}

TEST_CASE("the rules of the reference's nftables backend go by the container's ID") {
  const Node node("nft");
  const std::string rules = R"(
table ip cni_hostport {
  chain hostports {
    tcp dport 8000 dnat to 10.1.1.5:80 comment "c1"
    tcp dport 8000 dnat to 10.1.1.5:80 comment "c1"
    tcp dport 8001 dnat to 10.1.1.6:80 comment "c11"
  }
  chain hostip_hostports { ip daddr 192.0.2.1 tcp dport 8000 dnat to 10.1.1.5:80 comment "c1"; }
  chain masquerading {
    type nat hook postrouting priority 100;
    ip saddr 10.1.1.5 ip daddr 10.1.1.5 masquerade comment "c1"
    ip saddr 127.0.0.1 ip daddr 10.1.1.5 masquerade
  }
}
table ip6 cni_hostport {
  chain hostports { tcp dport 8000 dnat to [fd07::5]:80 comment "c1"; }
  chain hostip_hostports { }
}
)";
  ::setenv("RULES", rules.c_str(), 1);
  REQUIRE(run("printf '%s' \"$RULES\" | nft -f -"));
  NfSocket socket;
  for (int i = 0; i < 2; ++i) {
    socket.commit_planned(
        [&](netlink::nf::Batch& batch) { reference_nft::plan_remove(socket, "c1", batch); });
    const std::string left = output_of("nft list ruleset");
    CHECK(!contains(left, "\"c1\""));
    CHECK(count(left, "dnat to") == 1);
    CHECK(count(left, "masquerade\n") == 1);
  }
}

int main(int argc, char** argv) {
  if (!enter_own_namespace()) {
    std::puts("SKIP: not allowed to make a network namespace");
    return 77;
  }
  doctest::Context context(argc, argv);
  return context.run();
}

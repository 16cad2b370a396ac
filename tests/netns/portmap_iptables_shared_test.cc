// In a network namespace of its own, with either iptables: what portmap's iptables backend finds
// missing, what it shares, and what comes of many at once. Needs root; exits with 77 where it may
// not unshare.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>

#include <functional>
#include <sstream>

#include "libcni/common/error.h"
#include "tests/netns/portmap_iptables.h"

using namespace test;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

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
    const auto why = iptables::missing(&*node.socket, a);
    REQUIRE(why);
    // iptables-save does not quote a comment of one word.
    const std::string part = rule.substr(rule.rfind("-j "));
    CHECK_MESSAGE(contains(*why, part), *why);
    REQUIRE(run(cat(tool, "-restore < /tmp/portmap_iptables.", ::getpid())));
    ++deleted;
  }
  ::unlink(cat("/tmp/portmap_iptables.", ::getpid()).c_str());
  CHECK(deleted > 10);
  CHECK(!iptables::missing(&*node.socket, a));
}

}  // namespace

TEST_CASE("every single rule is missed") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    const Attachment a = attachment("c1", kThree);
    iptables::add(&*node.socket, a);
    delete_one_by_one(node, "iptables", a);
    delete_one_by_one(node, "ip6tables", a);
    REQUIRE(run(cat("iptables -t nat -A ", kChain, " -p tcp -j RETURN")));
    CHECK(contains(iptables::missing(&*node.socket, a).value_or(""), "other rules"));
  }
}

TEST_CASE("an ADD repairs what is missing of what all share") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    const Attachment a = attachment("c1", kThree);
    iptables::add(&*node.socket, a);
    const std::string whole = saved();
    REQUIRE(run("iptables -t nat -F POSTROUTING && iptables -F CNI-HOSTPORT-GUARD"));
    REQUIRE(run("iptables -t nat -F PREROUTING && iptables -t nat -F CNI-HOSTPORT-MASQ"));
    REQUIRE(run("ip6tables -t nat -F OUTPUT && ip6tables -t nat -F CNI-HOSTPORT-SETMARK"));
    iptables::add(&*node.socket, a);
    CHECK(saved() == whole);
  }
}

TEST_CASE("a repeated ADD replaces shared rules that lost, gained or changed a match") {
  const char* const jump = " -j CNI-HOSTPORT-";
  const std::string damages[] = {
      cat("iptables -t nat -R PREROUTING 1", jump, "DNAT"),
      cat("iptables -t nat -R PREROUTING 1 -m addrtype --dst-type UNICAST", jump, "DNAT"),
      cat("iptables -t nat -D OUTPUT 2; ip6tables -t nat -R OUTPUT 1 -m addrtype --dst-type LOCAL "
          "-o eth7",
          jump, "DNAT"),
      cat("iptables -t nat -R POSTROUTING 1 -s 192.0.2.1/32", jump, "MASQ"),
      cat("iptables -R INPUT 1 -i eth7", jump, "GUARD"),
      "iptables -R CNI-HOSTPORT-GUARD 1 -d 127.0.0.0/16 ! -i lo -m conntrack ! --ctstate DNAT "
      "-j DROP",
  };
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    REQUIRE(run("iptables -t nat -A POSTROUTING"));  // matches all, and has no target
    REQUIRE(run("iptables -t nat -A OUTPUT -m comment --comment CNI-HOSTPORT-DNAT"));
    const Attachment a = attachment("c1", kThree);
    iptables::add(&*node.socket, a);
    const std::string whole = saved();
    for (const std::string& damage : damages) {
      INFO(variant, ": ", damage);
      REQUIRE(run(damage));
      REQUIRE(iptables::missing(&*node.socket, a));
      iptables::add(&*node.socket, a);
      CHECK(saved() == whole);
      CHECK(!iptables::missing(&*node.socket, a));
    }
    REQUIRE(
        run("iptables -t nat -R CNI-HOSTPORT-MASQ 1 -s 192.0.2.1 -m mark --mark 0x2000/0x2000 "
            "-j MASQUERADE"));
    iptables::add(&*node.socket, a);
    CHECK(!iptables::missing(&*node.socket, a));
  }
}

TEST_CASE("two mark bits are two rules, and the rest is shared") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    Attachment a = attachment("c1", kThree);
    iptables::add(&*node.socket, a);
    a.owner.container_id = "c2";
    a.options.mark_bit = 31;
    for (int i = 0; i < 2; ++i) iptables::add(&*node.socket, a);
    const std::string all = output_of("iptables-save");
    CHECK(count(all, "-A CNI-HOSTPORT-SETMARK") == 2);
    CHECK(count(all, "-A CNI-HOSTPORT-MASQ") == 2);
    CHECK(contains(all, "--set-xmark 0x80000000/0x80000000"));
    CHECK(count(all, "-A POSTROUTING") == 1);
    CHECK(!iptables::missing(&*node.socket, a));
  }
}

TEST_CASE("conditions are in the rules that lead there") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    Attachment a = attachment("c1", kThree);
    a.options.conditions_v4 = {"!", "-s", "192.0.2.0/24", "-m", "limit", "--limit", "1/sec"};
    a.options.conditions_v6 = {"-i", "eth0"};
    for (int i = 0; i < 2; ++i) iptables::add(&*node.socket, a);
    const std::string all = saved();
    CHECK(count(all, "-A CNI-HOSTPORT-DNAT ! -s 192.0.2.0/24 -p ") == 3);
    CHECK(count(all, "-A CNI-HOSTPORT-DNAT -i eth0 -p ") == 2);
    CHECK(!iptables::missing(&*node.socket, a));
    REQUIRE(run("iptables -t nat -D CNI-HOSTPORT-DNAT 2"));
    CHECK(contains(iptables::missing(&*node.socket, a).value_or(""), "--dports 8000"));
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
      iptables::add(&*node.socket, a);
      FAIL("the ADD passed");
    } catch (const cni::Error& e) {
      CHECK(e.code() == cni::Code::kInvalidConfig);
      CHECK(std::string(e.what()) ==
            "externalSetMarkChain: ip6tables has no chain 'KUBE-MARK-MASQ' in table nat");
    }
    CHECK(saved() == before);
    REQUIRE(run("ip6tables -t nat -N KUBE-MARK-MASQ"));
    iptables::add(&*node.socket, a);
    CHECK(!iptables::missing(&*node.socket, a));
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
      iptables::add(&socket, attachment(cat("p", i), {{port, 80}}));
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
      iptables::add(&socket, one(i));
    }));
    CHECK(count(saved(), "-A CNI-HOSTPORT-DNAT") == 16);
    for (int i = 0; i < 8; ++i) {
      CHECK(iptables::missing(&*node.socket, one(i)).value_or("") == "");
    }
    CHECK(at_once(8, [&](int i) {
      NfSocket socket;
      iptables::remove(&socket, one(i).owner);
    }));
    CHECK(!contains(saved(), "CNI-DN"));
  }
}

static const node::TestFile kTests(__FILE__, [](doctest::Context&) { return std::string(); });

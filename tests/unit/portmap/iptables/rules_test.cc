#include "plugins/portmap/iptables/rules.h"

#include <doctest/doctest.h>

#include "libcni/common/error.h"

using namespace portmap;
using iptables::Existing;
using iptables::RuleText;

namespace {

using Texts = std::vector<std::string>;

const Owner kOwner{"net1", "c1", "eth0"};
const std::string kChain = "CNI-DN-c2d892b58e87e28a12fe6";  // of the reference, for net1 and c1

PodAddresses pod() { return {*Cidr::parse("10.1.1.5/24"), *Cidr::parse("fd07::5/64")}; }

struct Port {
  Protocol protocol;
  std::uint16_t host, container;
  const char* host_ip = nullptr;
};

Attachment attachment(const std::vector<Port>& ports) {
  Attachment out;
  out.owner = kOwner;
  out.backend = BackendName::kIptables;
  std::vector<Mapping> mappings;
  for (const Port& port : ports) {
    Mapping mapping{port.host, port.container, port.protocol};
    if (port.host_ip != nullptr) mapping.host_ip = Ip::parse(port.host_ip);
    mappings.push_back(mapping);
  }
  out.pod = pod();
  out.claims = claims_of(mappings, out.pod);
  return out;
}

Attachment one_port() { return attachment({{Protocol::kTcp, 8000, 80}}); }

// Everything shared is there.
Existing settled(Family family, const Attachment& a) {
  return {{iptables::kDnatChain, iptables::kSetMarkChain, iptables::kMasqChain},
          iptables::shared_rules(family, a.options),
          {}};
}

Texts lines(const std::vector<RuleText>& rules) {
  Texts out;
  for (const RuleText& rule : rules) out.push_back(rule.table + " " + rule.str());
  return out;
}

}  // namespace

TEST_CASE("the names and the comment are the reference's") {
  CHECK(iptables::chain_of(kOwner) == kChain);
  CHECK(iptables::chain_of({"test", "1234", ""}) == "CNI-DN-2bbe0c48b91a7d1b8a675");
  CHECK(iptables::obsolete_chain_of({"test", "1234", ""}) == "CNI-SN-2bbe0c48b91a7d1b8a675");
  CHECK(iptables::comment_of(kOwner) == R"(dnat name: "net1" id: "c1")");
}

TEST_CASE("a comment of 255 bytes stays, a longer one is cut to 253 and dots") {
  const std::size_t around = iptables::comment_of({"net1", "", ""}).size();
  const std::string fits(255 - around, 'x');
  CHECK(iptables::comment_of({"net1", fits, ""}).size() == 255);
  CHECK(iptables::comment_of({"net1", fits, ""}).ends_with("x\""));
  const std::string cut = iptables::comment_of({"net1", fits + "x", ""});
  CHECK(cut == R"(dnat name: "net1" id: ")" + fits.substr(1) + "..");
  CHECK(cut.size() == 255);
}

TEST_CASE("a comment tells the container, unless it is cut or of another network") {
  CHECK(iptables::container_in(iptables::comment_of(kOwner), "net1") == "c1");
  CHECK(iptables::container_in(iptables::comment_of(kOwner), "net").empty());
  CHECK(iptables::container_in(iptables::comment_of({"net1", std::string(300, 'x'), ""}), "net1")
            .empty());
  CHECK(iptables::container_in(R"(dnat name: "net1" id: ")", "net1").empty());
}

TEST_CASE("what all share, in IPv4 with the guard of route_localnet") {
  CHECK(lines(iptables::shared_rules(Family::kIpv4, {})) ==
        Texts{
            "nat -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
            "nat -A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
            "nat -A CNI-HOSTPORT-SETMARK -m comment --comment \"CNI portfwd masquerade mark\" -j "
            "MARK --set-xmark 0x2000/0x2000",
            "nat -A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE",
            "nat -A POSTROUTING -m comment --comment \"CNI portfwd requiring masquerade\" -j "
            "CNI-HOSTPORT-MASQ",
            "filter -A CNI-HOSTPORT-GUARD -d 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate "
            "DNAT -j DROP",
            "filter -A CNI-HOSTPORT-GUARD -s 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate "
            "DNAT -j DROP",
            "filter -A INPUT -j CNI-HOSTPORT-GUARD",
        });
  CHECK(iptables::shared_rules(Family::kIpv6, {}).size() == 5);
}

TEST_CASE("the mark is the configured bit; without masquerading or with a chain of others none") {
  Options options;
  options.mark_bit = 5;
  const auto marked = iptables::shared_rules(Family::kIpv6, options);
  CHECK(marked[2].text.ends_with("-j MARK --set-xmark 0x20/0x20"));
  CHECK(marked[3].text == "-m mark --mark 0x20/0x20 -j MASQUERADE");
  CHECK(marked[4].first);
  options.external_set_mark_chain = "KUBE-MARK-MASQ";
  const auto external = iptables::shared_rules(Family::kIpv4, options);
  REQUIRE(external.size() == 5);  // route_localnet needs its guard whoever masquerades
  CHECK(external[2].table == "filter");
  options.snat = false;
  CHECK(iptables::shared_rules(Family::kIpv4, options).size() == 2);
}

TEST_CASE("IPv4: a port is marked for the pod's subnet and for 127.0.0.1, and translated") {
  CHECK(iptables::chain_rules(Family::kIpv4,
                              attachment({{Protocol::kTcp, 8000, 80},
                                          {Protocol::kSctp, 8001, 81, "192.0.2.1"},
                                          {Protocol::kUdp, 8002, 82, "2001:db8::1"}})) ==
        Texts{
            "-d 127.0.0.0/8 ! -o lo -j RETURN",
            "-s 127.0.0.0/8 ! -o lo -j RETURN",
            "-s 10.1.1.0/24 -p tcp -m tcp --dport 8000 -j CNI-HOSTPORT-SETMARK",
            "-s 127.0.0.1/32 -p tcp -m tcp --dport 8000 -j CNI-HOSTPORT-SETMARK",
            "-p tcp -m tcp --dport 8000 -j DNAT --to-destination 10.1.1.5:80",
            "-s 10.1.1.0/24 -d 192.0.2.1/32 -p sctp -m sctp --dport 8001 -j CNI-HOSTPORT-SETMARK",
            "-s 127.0.0.1/32 -d 192.0.2.1/32 -p sctp -m sctp --dport 8001 -j CNI-HOSTPORT-SETMARK",
            "-d 192.0.2.1/32 -p sctp -m sctp --dport 8001 -j DNAT --to-destination 10.1.1.5:81",
        });
}

TEST_CASE("IPv6: [::1] is no way to the pod, and there is no mark for it") {
  CHECK(iptables::chain_rules(Family::kIpv6, attachment({{Protocol::kTcp, 8000, 80},
                                                         {Protocol::kUdp, 8002, 82, "2001:db8::1"},
                                                         {Protocol::kTcp, 8003, 83, "0.0.0.0"}})) ==
        Texts{
            "-d ::1/128 -j RETURN",
            "-s fd07::/64 -p tcp -m tcp --dport 8000 -j CNI-HOSTPORT-SETMARK",
            "-p tcp -m tcp --dport 8000 -j DNAT --to-destination [fd07::5]:80",
            "-s fd07::/64 -d 2001:db8::1/128 -p udp -m udp --dport 8002 -j CNI-HOSTPORT-SETMARK",
            "-d 2001:db8::1/128 -p udp -m udp --dport 8002 -j DNAT --to-destination [fd07::5]:82",
        });
}

TEST_CASE("another attachment's port, which leads out of the pod's subnet, has its own source") {
  Attachment a = one_port();
  a.claims[0].target = *Ip::parse("10.2.2.2");
  CHECK(iptables::chain_rules(Family::kIpv4, a)[2] ==
        "-s 10.2.2.2/32 -p tcp -m tcp --dport 8000 -j CNI-HOSTPORT-SETMARK");
}

TEST_CASE("masqAll marks every source; snat false none; a chain of others is jumped to") {
  Attachment a = one_port();
  const auto rules = [&] {
    Texts all = iptables::chain_rules(Family::kIpv4, a);
    return Texts(all.begin() + 2, all.end());
  };
  a.options.masq_all = true;
  CHECK(rules() == Texts{"-p tcp -m tcp --dport 8000 -j CNI-HOSTPORT-SETMARK",
                         "-p tcp -m tcp --dport 8000 -j DNAT --to-destination 10.1.1.5:80"});
  a.options.external_set_mark_chain = "KUBE-MARK-MASQ";
  CHECK(rules().front() == "-p tcp -m tcp --dport 8000 -j KUBE-MARK-MASQ");
  a.options.masq_all = false;
  CHECK(rules().front() == "-s 10.1.1.0/24 -p tcp -m tcp --dport 8000 -j KUBE-MARK-MASQ");
  a.options.snat = false;
  CHECK(rules() == Texts{"-p tcp -m tcp --dport 8000 -j DNAT --to-destination 10.1.1.5:80"});
}

TEST_CASE("the rules that lead there go by protocol, and have what the family has") {
  const std::string comment = R"( -m comment --comment "dnat name: \"net1\" id: \"c1\"")";
  const Attachment a = attachment({{Protocol::kUdp, 53, 53},
                                   {Protocol::kTcp, 8000, 80},
                                   {Protocol::kSctp, 9, 9},
                                   {Protocol::kTcp, 8001, 81, "2001:db8::1"},
                                   {Protocol::kTcp, 7000, 82}});
  CHECK(iptables::entry_rules(Family::kIpv4, a) ==
        Texts{
            "-p sctp" + comment + " -m multiport --dports 9 -j " + kChain,
            "-p tcp" + comment + " -m multiport --dports 8000,7000 -j " + kChain,
            "-p udp" + comment + " -m multiport --dports 53 -j " + kChain,
        });
  CHECK(iptables::entry_rules(Family::kIpv6, a)[1] ==
        "-p tcp" + comment + " -m multiport --dports 8000,8001,7000 -j " + kChain);
}

TEST_CASE("fifteen ports go into a rule") {
  std::vector<Port> ports;
  for (std::uint16_t i = 1; i <= 31; ++i) ports.push_back({Protocol::kTcp, i, 80});
  const Texts rules = iptables::entry_rules(Family::kIpv4, attachment(ports));
  REQUIRE(rules.size() == 3);
  CHECK(rules[0].find("--dports 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15 -j") != std::string::npos);
  CHECK(rules[1].find("--dports 16,") != std::string::npos);
  CHECK(rules[2].find("--dports 31 -j") != std::string::npos);
}

TEST_CASE("conditions are words behind the ports, quoted where they have to be") {
  Attachment a = one_port();
  a.options.conditions_v4 = {"!", "-s", "192.0.2.0/24", "-m", "comment", "--comment", "a \"b\""};
  a.options.conditions_v6 = {"-i", "eth0"};
  CHECK(iptables::entry_rules(Family::kIpv4, a)[0].ends_with(
      R"(--dports 8000 ! -s 192.0.2.0/24 -m comment --comment "a \"b\"" -j )" + kChain));
  CHECK(iptables::entry_rules(Family::kIpv6, a)[0].ends_with("--dports 8000 -i eth0 -j " + kChain));
  a.options.conditions_v4 = {"-i", "eth0\n-F"};
  CHECK_THROWS_AS(iptables::entry_rules(Family::kIpv4, a), cni::Error);
}

TEST_CASE("the first one on the node brings what all share") {
  CHECK(iptables::rules_to_add(iptables::wanted_of(Family::kIpv4, one_port()), {}) ==
        R"(*filter
:CNI-HOSTPORT-GUARD - [0:0]
-A CNI-HOSTPORT-GUARD -d 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate DNAT -j DROP
-A CNI-HOSTPORT-GUARD -s 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate DNAT -j DROP
-I INPUT 1 -j CNI-HOSTPORT-GUARD
COMMIT
*nat
-N CNI-HOSTPORT-DNAT
-N CNI-HOSTPORT-SETMARK
-N CNI-HOSTPORT-MASQ
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-I POSTROUTING 1 -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
:CNI-DN-c2d892b58e87e28a12fe6 - [0:0]
-A CNI-DN-c2d892b58e87e28a12fe6 -d 127.0.0.0/8 ! -o lo -j RETURN
-A CNI-DN-c2d892b58e87e28a12fe6 -s 127.0.0.0/8 ! -o lo -j RETURN
-A CNI-DN-c2d892b58e87e28a12fe6 -s 10.1.1.0/24 -p tcp -m tcp --dport 8000 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -s 127.0.0.1/32 -p tcp -m tcp --dport 8000 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -p tcp -m tcp --dport 8000 -j DNAT --to-destination 10.1.1.5:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"net1\" id: \"c1\"" -m multiport --dports 8000 -j CNI-DN-c2d892b58e87e28a12fe6
COMMIT
)");
}

TEST_CASE("what is there is not added again, and the container's own is replaced") {
  const Attachment a = one_port();
  Existing seen = settled(Family::kIpv6, a);
  const std::string own = R"(:CNI-DN-c2d892b58e87e28a12fe6 - [0:0]
-A CNI-DN-c2d892b58e87e28a12fe6 -d ::1/128 -j RETURN
-A CNI-DN-c2d892b58e87e28a12fe6 -s fd07::/64 -p tcp -m tcp --dport 8000 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -p tcp -m tcp --dport 8000 -j DNAT --to-destination [fd07::5]:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"net1\" id: \"c1\"" -m multiport --dports 8000 -j CNI-DN-c2d892b58e87e28a12fe6
COMMIT
)";
  CHECK(iptables::rules_to_add(iptables::wanted_of(Family::kIpv6, a), seen) == "*nat\n" + own);
  seen.chains.insert(kChain);
  seen.entries = {3, 7};
  CHECK(iptables::rules_to_add(iptables::wanted_of(Family::kIpv6, a), seen) ==
        "*nat\n-D CNI-HOSTPORT-DNAT 7\n-D CNI-HOSTPORT-DNAT 3\n-F " + kChain + "\n-X " + kChain +
            "\n" + own);
}

TEST_CASE("a guard that is damaged is written whole, and its jump only if that is gone") {
  const Attachment a = one_port();
  Existing seen = settled(Family::kIpv4, a);
  std::erase_if(seen.rules, [](const RuleText& rule) { return rule.text.starts_with("-s 127"); });
  const std::string input = iptables::rules_to_add(iptables::wanted_of(Family::kIpv4, a), seen);
  CHECK(input.starts_with(R"(*filter
:CNI-HOSTPORT-GUARD - [0:0]
-A CNI-HOSTPORT-GUARD -d 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate DNAT -j DROP
-A CNI-HOSTPORT-GUARD -s 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate DNAT -j DROP
COMMIT
*nat
:CNI-DN-)"));
}

TEST_CASE("without masquerading no guard, no mark, and none of their chains") {
  Attachment a = one_port();
  a.options.snat = false;
  const std::string input = iptables::rules_to_add(iptables::wanted_of(Family::kIpv4, a), {});
  CHECK(input.starts_with("*nat\n-N CNI-HOSTPORT-DNAT\n-A PREROUTING"));
  CHECK(input.find("MASQ") == std::string::npos);
  CHECK(input.find("MARK") == std::string::npos);
}

TEST_CASE("removal goes from the last rule to the first") {
  CHECK(iptables::rules_to_remove({{iptables::kDnatChain, "CNI-DN-1", {2, 5}},
                                   {iptables::kSnatChain, "CNI-SN-1", {}}}) == R"(*nat
-D CNI-HOSTPORT-DNAT 5
-D CNI-HOSTPORT-DNAT 2
-F CNI-DN-1
-X CNI-DN-1
-F CNI-SN-1
-X CNI-SN-1
COMMIT
)");
}

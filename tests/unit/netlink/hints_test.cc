#include "netlink/types/hints.h"

#include <doctest/doctest.h>

#include <cerrno>

#include "netlink/nf/batch.h"
#include "netlink/types/error.h"

using netlink::limit_hint;
using netlink::load_hint;
namespace nf = netlink::nf;

TEST_CASE("a missing module is named with the option of the kernel") {
  CHECK(load_hint("8021q") == "load the module '8021q': modprobe 8021q (CONFIG_VLAN_8021Q)");
  CHECK(load_hint("sch_tbf") == "load the module 'sch_tbf': modprobe sch_tbf (CONFIG_NET_SCH_TBF)");
  CHECK(load_hint("other") == "load the module 'other': modprobe other");
}

TEST_CASE("limits of open files are named, and nothing for other errors") {
  CHECK(limit_hint(EMFILE) == "raise the process's limit of open files: ulimit -n");
  CHECK(limit_hint(ENFILE) == "raise the node's limit of open files: sysctl fs.file-max");
  CHECK(limit_hint(EPERM).empty());
  CHECK(netlink::Error("open 'x'", ENFILE).what() ==
        std::string("open 'x': too many open files in system (raise the node's limit of open "
                    "files: sysctl fs.file-max)"));
}

TEST_CASE("a chain or rule that the kernel cannot have names what it needs") {
  const nf::ChainId chain{nf::TableFamily::kIp, "t", "c"};
  CHECK(nf::module_hint(nf::Chain{chain, nf::Hook{.type = "nat"}}, ENOENT) ==
        load_hint("nft_chain_nat"));
  CHECK(nf::module_hint(nf::Rule{chain, {nf::Counter{}, nf::Masq{}}}, ENOENT) ==
        load_hint("nft_masq"));
  CHECK(nf::module_hint(nf::Rule{chain, {nf::Nat{}}}, ENOENT) == load_hint("nft_nat"));
  CHECK(nf::module_hint(nf::Rule{chain, {nf::Fib{}}}, ENOENT) == load_hint("nft_fib_ipv4"));
  CHECK(nf::module_hint(nf::Rule{chain, {nf::Masq{}}}, EBUSY).empty());
  CHECK(nf::module_hint(nf::Rule{chain, {nf::Counter{}}}, ENOENT).empty());
  CHECK(nf::module_hint(nf::Chain{chain, nf::Hook{.type = "filter"}}, ENOENT).empty());
}

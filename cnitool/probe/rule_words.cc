#include "cnitool/probe/rule_words.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "libcni/common/error.h"
#include "plugins/names/chains.h"
#include "plugins/names/tables.h"

namespace tool::probe {

namespace {

using cni::cat;
using doctor::quoted;
using netlink::Family;
using netlink::nf::ChainId;
using netlink::nf::TableFamily;

/// Who makes tables and chains of these names.
constexpr struct {
  const char *table, *chain, *whose;
} kOwners[] = {{"firewalld", "", "firewalld's"},
               {"", "KUBE-", "kube-proxy's"},
               {"kube-proxy", "", "kube-proxy's"},
               {"", "cali-", "Calico's"},
               {"", "DOCKER", "Docker's"},
               {"docker-bridges", "", "Docker's"},
               {"", "CILIUM", "Cilium's"},
               {"", "ufw", "ufw's"},
               {"", "FLANNEL", "flannel's"},
               {names::kTablePrefix, "", "of this suite"},
               {"", names::kChainPrefix, "of a CNI plugin"},
               {"cni_", "", "of a CNI plugin"},
               {"netavark", "", "podman's"},
               {"", "LIBVIRT", "libvirt's"},
               {"libvirt_network", "", "libvirt's"}};

std::string whose(const ChainId& id) {
  for (const auto& one : kOwners) {
    if (id.table.starts_with(one.table) && id.chain.starts_with(one.chain)) return one.whose;
  }
  return kSomebodys;
}

// nft(8) takes its words for its language: one that is no name of that may be anything, as what
// root in a pod has put there, and is neither looked up nor typed.
bool is_name(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
  return !word.empty() && word[0] != '-' &&
         word.find_first_not_of(kPlain) == std::string_view::npos;
}

bool is_of_iptables(const ChainId& id) {
  constexpr std::string_view kTables[] = {"filter", "nat", "mangle", "raw", "security"};
  return (id.family == TableFamily::kIp || id.family == TableFamily::kIp6) &&
         std::ranges::find(kTables, id.table) != std::end(kTables);
}

// Without what it has counted: one rule is one cause, however many packets it has seen meanwhile.
std::string without_counts(std::string line) {
  constexpr std::pair<std::string_view, std::string_view> kCounts[] = {{" packets ", " bytes "},
                                                                       {" used ", " bytes"}};
  const auto skip_number = [&](std::size_t at) {
    return std::min(line.find_first_not_of("0123456789", at), line.size());
  };
  for (const auto& [before, between] : kCounts) {
    const auto begin = line.find(before);
    if (begin == std::string::npos) continue;
    const std::size_t middle = skip_number(begin + before.size());
    if (line.compare(middle, between.size(), between) != 0) continue;
    line.erase(begin, skip_number(middle + between.size()) - begin);
  }
  return line;
}

}  // namespace

std::string place_of(const ChainId& id) {
  return cat("chain '", printable(id.chain), "' of table ", name_of(id.family), " ",
             printable(id.table));
}

bool is_of_suite(const ChainId& id) { return id.table.starts_with(names::kTablePrefix); }

std::string whose_at(const ChainId& id, const Subject* where) {
  const std::string owner = whose(id);
  return where != nullptr && owner == kSomebodys ? "of the pod itself, or of a person" : owner;
}

// The line that nft has for a rule; its handle where nft is not installed, or the rule is gone.
std::string text_of_rule(const ChainId& id, std::uint64_t handle, const Subject* where,
                         Scene& scene) {
  if (!is_name(id.table) || !is_name(id.chain)) return cat("handle ", handle);
  const std::string listing = scene.output_of(
      where, "nft", {"-a", "list", "chain", std::string(name_of(id.family)), id.table, id.chain});
  const std::string end = cat("# handle ", handle);
  std::string_view rest = listing;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const auto begin = line.find_first_not_of("\t ");
    if (begin == std::string_view::npos || !line.ends_with(end)) continue;
    return printable(without_counts(std::string(line.substr(begin))));
  }
  return cat("handle ", handle);
}

// One statement more, as "limit" or "numgen", may be stateful: the copy would take from it.
std::string acceptance_of(const std::string& rule) {
  constexpr std::string_view kConditions[] = {"ip",   "ip6",     "tcp",     "udp", "sctp", "icmp",
                                              "meta", "iifname", "oifname", "ct",  "th"};
  constexpr std::string_view kKeys[] = {
      "saddr", "daddr",   "sport",  "dport", "type", "code",   "state",    "status",  "l4proto",
      "mark",  "nfproto", "length", "iif",   "oif",  "icmpv6", "protocol", "nexthdr", "flags"};
  constexpr std::string_view kOfConstants[] = {"state", "type", "l4proto", "status", "protocol"};
  const auto is_value = [](std::string_view word) {
    return word.find_first_not_of("0123456789abcdefx.:/,-{}\"!=&|") == std::string_view::npos;
  };
  const auto is_in = [](const auto& list, std::string_view word) {
    return std::ranges::find(list, word) != std::end(list);
  };
  std::istringstream words(rule);
  std::string match, word, before;
  while (words >> word && word != "drop" && word != "reject") {
    if (word == "counter") continue;
    const bool is_link = word.size() > 1 && word.starts_with('"') && word.ends_with('"') &&
                         is_name(std::string_view(word).substr(1, word.size() - 2));
    const bool is_constant = is_in(kOfConstants, before) && is_name(word);
    const bool is_known = is_in(kConditions, word) || is_in(kKeys, word) || is_value(word);
    if (!is_known && !is_link && !is_constant) return "accept";
    match += word + " ";
    before = word;
  }
  if (match.empty() || (word != "drop" && word != "reject")) return "accept";
  match.pop_back();
  return cat(doctor::quoted(match), " accept");
}

// Lets the pods' packets pass before the rule or policy that drops them; removes nothing.
std::string opening(const ChainId& id, const Case& one, const std::string& verdict,
                    const Subject* where) {
  const Family family = one.question.packet.target.family();
  const Subject& pod = one.sender != nullptr ? *one.sender : one.subject;
  const std::string subnet = subnet_of(pod, family).str();
  if (!is_name(id.table) || !is_name(id.chain)) return "nft -a list ruleset";
  if (id.table == "firewalld" && where == nullptr) {  // in a pod it is none
    return cat("firewall-cmd --permanent --zone=trusted --add-source=", subnet,
               " && firewall-cmd --reload");
  }
  if (is_of_iptables(id)) {
    const std::string command = cat(family == Family::kIpv4 ? "iptables" : "ip6tables", " -t ",
                                    id.table, " -I ", quoted(id.chain));
    const char* const target = verdict.ends_with("accept") ? "ACCEPT" : "RETURN";
    return cat(command, " -s ", subnet, " -j ", target, "; ", command, " -d ", subnet, " -j ",
               target);
  }
  const std::string command =
      cat("nft insert rule ", name_of(id.family), " ", quoted(id.table), " ", quoted(id.chain));
  if (id.family == TableFamily::kArp) {
    return cat(command, " arp saddr ip ", subnet, " ", verdict, "; ", command, " arp daddr ip ",
               subnet, " ", verdict);
  }
  const char* const ip = family == Family::kIpv4 ? "ip" : "ip6";
  // The egress of a link is behind the translation of sources, and its ingress before that back.
  const bool is_behind = id.family == TableFamily::kNetdev && one.flow &&
                         one.flow->reply.destination != one.flow->original.source;
  if (is_behind) {
    const std::string end = one.flow->original.destination.str();
    return cat(command, " ", ip, " daddr ", end, " ", verdict, "; ", command, " ", ip, " saddr ",
               end, " ", verdict);
  }
  return cat(command, " ", ip, " saddr ", subnet, " ", verdict, "; ", command, " ", ip, " daddr ",
             subnet, " ", verdict);
}

std::string opening_for_answers(const ChainId& id, const Case& one) {
  const bool is_translated = one.flow && one.flow->reply.destination != one.flow->original.source;
  const bool is_plain = is_name(id.table) && is_name(id.chain);
  if (!is_translated || !is_plain) return opening(id, one, "accept", nullptr);
  const netlink::Ip& to = one.flow->reply.destination;  // any host answers, not only the probed one
  if (is_of_iptables(id)) {
    return cat(to.is_v4() ? "iptables" : "ip6tables", " -t ", id.table, " -I ", quoted(id.chain),
               " -d ", to.str(), " -j ACCEPT");
  }
  return cat("nft insert rule ", name_of(id.family), " ", quoted(id.table), " ", quoted(id.chain),
             " ", to.is_v4() ? "ip" : "ip6", " daddr ", to.str(), " accept");
}

// Packets of neighbours have other headers than those of probes.
std::string opening_for_neighbours(const ChainId& id, const Case& one, const Subject* where) {
  const Family family = one.question.packet.target.family();
  const bool is_plain = is_name(id.table) && is_name(id.chain);
  if (id.family == TableFamily::kArp || !is_plain) return opening(id, one, "accept", where);
  const char* const match = family == Family::kIpv4
                                ? "ether type arp"
                                : "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert }";
  return cat("nft insert rule ", name_of(id.family), " ", quoted(id.table), " ", quoted(id.chain),
             " ", match, " accept");
}

}  // namespace tool::probe

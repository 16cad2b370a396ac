#include <string_view>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "libcni/common/error.h"
#include "libcni/plugin/iptables_save.h"

// Policies of IPsec (ip-xfrm(8)) that block packets, or demand what nobody has negotiated.
namespace tool::probe {

namespace {

using cni::cat;

/// "src 10.1.2.2/32 dst 0.0.0.0/0 ", and what the lines below say.
struct Policy {
  std::string selector, direction;
  netlink::Cidr from, to;
  bool blocks = false, has_template = false;
};

std::string_view word_behind(std::string_view text, std::string_view before) {
  const auto at = text.find(before);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + before.size());
  return rest.substr(0, rest.find_first_of(" \n"));
}

std::optional<Policy> policy_in(std::string_view entry) {
  const std::string_view head = entry.substr(0, entry.find('\n'));
  const auto from = netlink::Cidr::parse(word_behind(head, "src "));
  const auto to = netlink::Cidr::parse(word_behind(head, "dst "));
  const std::string direction(word_behind(entry, "\tdir "));
  // Those of sockets are of the programs that have them.
  if (!from || !to || direction.empty()) return std::nullopt;
  return Policy{.selector = printable(std::string(head.substr(0, head.find_last_not_of(' ') + 1))),
                .direction = printable(direction),
                .from = *from,
                .to = *to,
                .blocks = entry.find(" action block") != std::string_view::npos,
                .has_template = entry.find("\n\ttmpl ") != std::string_view::npos};
}

// It may have the name of a link, as root in a pod has chosen it.
std::string typed(std::string_view words) {
  std::string out;
  for (const std::string& one : cni::words_of(words)) {
    out += cat(out.empty() ? "" : " ", doctor::quoted(one));
  }
  return out;
}

// Entries begin at the first column.
template <typename Take>
void for_each_entry(std::string_view listing, const Take& take) {
  while (!listing.empty()) {
    auto end = listing.find("\nsrc ");
    end = end == std::string_view::npos ? listing.size() : end + 1;
    take(listing.substr(0, end));
    listing.remove_prefix(end);
  }
}

// Of the packet as it is there, with the addresses that the pods know, and of its answer.
bool selects(const Policy& one, const Look& look) {
  const auto is = [&](const Ip& source, const Ip& target) {
    return one.from.contains(source) && one.to.contains(target);
  };
  const Ip& source = look.leg.source;
  if (source.is_unspecified()) return one.to.contains(look.leg.target);
  return is(source, look.leg.target) || is(look.leg.target, source);
}

}  // namespace

std::optional<Cause> taken_by_ipsec(const Look& look) {
  const char* const family = look.leg.target.is_v4() ? "-4" : "-6";
  for (const Subject* const where :
       {look.leg.from, look.leg.to, static_cast<const Subject*>(nullptr)}) {
    const std::string listing = look.scene.output_of(where, "ip", {family, "xfrm", "policy"});
    std::optional<Cause> out;
    for_each_entry(listing, [&](std::string_view entry) {
      const auto one = policy_in(entry);
      if (out || !one || !selects(*one, look) || (!one->blocks && !one->has_template)) return;
      out = Cause{
          cat(prefix_of(where), "a policy of IPsec ",
              one->blocks ? "blocks packets: " : "demands a tunnel for packets: ", one->selector,
              " dir ", one->direction),
          kSomebodys,
          command_in(where, one->blocks ? cat("ip xfrm policy delete ", typed(one->selector),
                                              " dir ", typed(one->direction))
                                        : std::string("ip -s xfrm state"))};
    });
    if (out) return out;
  }
  return std::nullopt;
}

}  // namespace tool::probe

#include <unistd.h>

#include <algorithm>

#include "cnitool/doctor/peers.h"
#include "libcni/common/error.h"
#include "libcni/common/split.h"
#include "netlink/route/socket.h"
#include "netlink/types/fd.h"

namespace tool::doctor {

namespace {

using cni::cat;
using netlink::Cidr;
using netlink::Ip;

struct Line {
  const std::string& file;
  std::size_t number;
  std::string_view text;

  [[noreturn]] void refuse(const std::string& what) const {
    throw cni::Error(cni::Code::kInvalidConfig, cat(file, ":", number, ": ", what),
                     "expected NAME PODCIDR[,PODCIDR] ADDRESS[,ADDRESS]");
  }
};

Peer peer_in(const Line& line) {
  const auto words = cni::split(line.text, " \t\r");
  if (words.size() != 3) line.refuse(cat("expected 3 words, not ", words.size()));
  std::vector<Ip> addresses;
  for (const auto word : cni::split(words[2], ",")) {
    const auto ip = Ip::parse(word);
    if (!ip) line.refuse(cat("'", word, "' is no IP address"));
    addresses.push_back(*ip);
  }
  Peer out{.name = std::string(words[0]), .subnets = {}};
  for (const auto word : cni::split(words[1], ",")) {
    const auto subnet = Cidr::parse(word);
    if (!subnet) line.refuse(cat("'", word, "' is no subnet"));
    const auto node = std::find_if(addresses.begin(), addresses.end(), [&](const Ip& one) {
      return one.family() == subnet->ip.family();
    });
    if (node == addresses.end()) line.refuse(cat("no address of the family of ", word));
    out.subnets.push_back({subnet->network(), *node});
  }
  return out;
}

}  // namespace

bool Peer::is_this() const {
  return std::any_of(subnets.begin(), subnets.end(),
                     [](const PeerSubnet& one) { return one.to_node && one.to_node->local; });
}

std::vector<Peer> parse_peers(std::string_view text, const std::string& file) {
  std::vector<Peer> out;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    out.push_back(peer_in({file, number, line}));
  }
  return out;
}

std::vector<Peer> look_at_peers(const std::string& file) {
  const auto text =
      file == "-" ? netlink::read_all(STDIN_FILENO, "stdin") : netlink::read_regular_file(file);
  if (!text)
    throw cni::Error(cni::Code::kInvalidConfig, cat("--peers '", file, "' does not exist"));
  std::vector<Peer> out = parse_peers(*text, file);
  netlink::RouteSocket socket;
  for (Peer& peer : out) {
    for (PeerSubnet& one : peer.subnets) {
      one.to_node = socket.match(one.node);
      one.to_pods = socket.match(one.subnet.ip.next().value_or(one.subnet.ip));
    }
  }
  return out;
}

}  // namespace tool::doctor

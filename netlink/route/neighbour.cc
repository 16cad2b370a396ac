#include "netlink/route/neighbour.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>

#include "netlink/types/error.h"

namespace netlink {

namespace {

ndmsg head_of(int link, const Ip& ip) {
  ndmsg head{};
  head.ndm_family = ip.is_v4() ? AF_INET : AF_INET6;
  head.ndm_ifindex = link;
  return head;
}

}  // namespace

RouteRequest correct_neighbour(const Link& link, const Ip& ip, const Mac& mac) {
  ndmsg head = head_of(link.index, ip);
  head.ndm_state = NUD_STALE;  // known, to be confirmed when used
  Message message(RTM_NEWNEIGH, NLM_F_REPLACE | NLM_F_ACK, head);
  message.put(NDA_DST, ip);
  message.put(NDA_LLADDR, mac.bytes);
  return {
      cat("correct neighbour ", ip.str(), " on '", link.name, "'"), std::move(message), {ENOENT}};
}

bool Neighbour::is_permanent() const { return (state & NUD_PERMANENT) != 0; }

bool Neighbour::is_fixed() const { return (state & (NUD_PERMANENT | NUD_NOARP)) != 0; }

bool Neighbour::is_confirmed() const { return (state & NUD_REACHABLE) != 0; }

bool Neighbour::has_failed() const { return (state & (NUD_INCOMPLETE | NUD_FAILED)) != 0; }

std::optional<Neighbour> decode_neighbour(const Reply& reply) {
  const auto head = reply.fixed<ndmsg>();
  const Attributes attributes = reply.attributes(sizeof head);
  const View ip = attributes.find(NDA_DST).value;
  const bool is_ip = head.ndm_family == AF_INET || head.ndm_family == AF_INET6;
  if (!is_ip || (ip.size() != 4 && ip.size() != 16)) return std::nullopt;
  Neighbour out{.ip = Ip::from_bytes(ip.data(), ip.size()),
                .link = head.ndm_ifindex,
                .state = head.ndm_state};
  const Attribute mac = attributes.find(NDA_LLADDR);
  if (mac.value.size() == sizeof(Mac::bytes)) out.mac = Mac{mac.as<decltype(Mac::bytes)>()};
  return out;
}

std::vector<Neighbour> neighbours(RouteSocket& socket) {
  std::vector<Neighbour> out;
  for (const int family : {AF_INET, AF_INET6}) {
    ndmsg head{};
    head.ndm_family = static_cast<unsigned char>(family);
    socket.dump("list neighbours", Message(RTM_GETNEIGH, 0, head), [&](const Reply& reply) {
      if (reply.type() != RTM_NEWNEIGH) return;
      if (auto one = decode_neighbour(reply)) out.push_back(*one);
    });
  }
  return out;
}

std::optional<Neighbour> find_neighbour(RouteSocket& socket, int link, const Ip& ip) {
  Message message(RTM_GETNEIGH, 0, head_of(link, ip));
  message.put(NDA_DST, ip);
  std::optional<Neighbour> out;
  socket.ask({cat("find neighbour ", ip.str()), std::move(message), {ENOENT, ENODEV}},
             [&](const Reply& reply) {
               if (reply.type() == RTM_NEWNEIGH) out = decode_neighbour(reply);
             });
  return out;
}

RouteRequest introduce(const Neighbour& one) {
  ndmsg head = head_of(one.link, one.ip);
  head.ndm_state = NUD_PROBE;
  Message message(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, head);
  message.put(NDA_DST, one.ip);
  message.put(NDA_LLADDR, one.mac.value_or(Mac{}).bytes);
  return {cat("introduce neighbour ", one.ip.str()), std::move(message)};
}

RouteRequest remove(const Neighbour& one) {
  Message message(RTM_DELNEIGH, NLM_F_ACK, head_of(one.link, one.ip));
  message.put(NDA_DST, one.ip);
  return {cat("remove neighbour ", one.ip.str()), std::move(message), {ENOENT}};
}

}  // namespace netlink

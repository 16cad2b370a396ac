#include "cnitool/probe/trackers.h"

#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include "cnitool/output.h"
#include "netlink/nf/legacy_table.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using netlink::Family;

// The names of the tables of iptables-legacy that are in use: "filter, nat".
std::string legacy_tables() {
  std::string out;
  for (const char* const table : {"filter", "nat", "mangle", "raw", "security"}) {
    if (!netlink::nf::legacy_in_use(Family::kIpv4, table) &&
        !netlink::nf::legacy_in_use(Family::kIpv6, table)) {
      continue;
    }
    out += cat(out.empty() ? "" : ", ", table);
  }
  return out;
}

netlink::Fd any_of(const std::vector<int>& fds) {
  netlink::Fd out(::epoll_create1(EPOLL_CLOEXEC));
  if (!out) throw netlink::Error("wait for traces of packets", errno);
  for (const int fd : fds) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (::epoll_ctl(out.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      throw netlink::Error("wait for traces of packets", errno);
    }
  }
  return out;
}

}  // namespace

Trackers::Trackers(const Mark& mark, const std::vector<Sent>& sent,
                   const std::vector<Follower::Post>& posts, std::vector<Ip> asked) {
  try {
    follower_.emplace(mark, sent, posts, std::move(asked));
  } catch (const netlink::Error& e) {
    limits_.push_back(cat("rules of nf_tables that drop packets are not named: ", e.what()));
  }
  try {
    watch_.emplace(mark, sent);
  } catch (const netlink::Error& e) {
    limits_.push_back(cat("the kernel's own reasons for drops are not seen: ", e.what()));
  }
  const std::string legacy = legacy_tables();
  if (!legacy.empty()) {
    limits_.push_back(cat("rules of iptables-legacy (", legacy,
                          ") are not traced: iptables-legacy-save -c counts their packets"));
  }
  std::vector<int> fds;
  if (follower_) fds.push_back(follower_->fd());
  if (watch_) fds.push_back(watch_->fd());
  any_ = any_of(fds);
}

const std::vector<Resolution>& Trackers::resolutions() const {
  static const std::vector<Resolution> kNone;
  return follower_ ? follower_->resolutions() : kNone;
}

void Trackers::read() {
  if (follower_) follower_->read();
  if (watch_) watch_->read();
}

std::map<std::uint16_t, Trail> Trackers::trails() {
  auto out = follower_ ? follower_->trails() : std::map<std::uint16_t, Trail>();
  if (!watch_) return out;
  for (auto& [number, drops] : watch_->take()) out[number].drops = std::move(drops);
  return out;
}

}  // namespace tool::probe

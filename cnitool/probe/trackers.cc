#include "cnitool/probe/trackers.h"

#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include "cnitool/output.h"
#include "libcni/plugin/node_tool.h"
#include "netlink/bpf/kernel_symbols.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

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
                   const std::vector<Follower::Post>& posts, std::vector<Ip> asked)
    : legacy_(posts) {
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
  if (watch_ && !netlink::bpf::shows_kernel_symbols()) {
    limits_.emplace_back(
        "the kernel's functions that drop packets are not named: kernel.kptr_restrict hides where "
        "they are (/proc/kallsyms)");
  }
  if (follower_ && !cni::find_node_tool("nft")) {
    limits_.emplace_back(
        "rules of nf_tables are named by their handles alone: nft is not installed");
  }
  limits_.insert(limits_.end(), legacy_.limits().begin(), legacy_.limits().end());
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
  legacy_.compare();
  auto out = follower_ ? follower_->trails() : std::map<std::uint16_t, Trail>();
  if (follower_ && !follower_->is_complete()) {
    limits_.emplace_back(
        "rules of nf_tables that drop packets may not be named: traces of them came faster than "
        "they were read; a smaller --rate helps");
  }
  if (!watch_) return out;
  for (auto& [number, drops] : watch_->take()) out[number].drops = std::move(drops);
  return out;
}

}  // namespace tool::probe

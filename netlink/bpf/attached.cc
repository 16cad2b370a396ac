#include "netlink/bpf/attached.h"

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>

#include "netlink/types/error.h"

namespace netlink::bpf {

namespace {

// linux/bpf.h of newer kernels; the members are padded as there.
constexpr std::uint32_t kTcx[] = {46, 47};  // BPF_TCX_INGRESS, BPF_TCX_EGRESS
constexpr std::uint32_t kLinkDetach = 34, kLinkOfXdp = 6;
constexpr std::size_t kMaxPrograms = 64;  // BPF_MPROG_MAX

struct Query {
  std::uint32_t target, type, flags, attach_flags;
  std::uint64_t programs;
  std::uint32_t count, unused;
  std::uint64_t program_flags, links, link_flags, revision;
};
struct Detach {
  std::uint32_t link, program, type, flags;
};
struct LinkInfo {
  std::uint32_t type, id, program, unused;
  std::uint32_t link;  // of XDP
  std::uint32_t rest[11];
};
struct InfoRequest {
  std::uint32_t fd, size;
  std::uint64_t info;
};
struct Number {
  std::uint32_t id, next;
};

template <class Attributes>
int call(std::uint32_t command, Attributes& attributes) {
  return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

bool is_in(const std::vector<std::uint32_t>& list, std::uint32_t one) {
  return std::ranges::find(list, one) != list.end();
}

struct Attached {
  std::uint32_t program, link;
};

// False: it has none, or the caller may not ask.
bool ask(Query& query) {
  constexpr int kHasNone[] = {EINVAL, ENOSYS, EPERM, ENOENT, EOPNOTSUPP, E2BIG};
  if (call(BPF_PROG_QUERY, query) == 0) return true;
  if (std::ranges::find(kHasNone, errno) != std::end(kHasNone)) return false;
  throw Error("list the eBPF programs of a link or control group", errno);
}

std::vector<Attached> attached_to(int link, std::uint32_t type) {
  std::uint32_t programs[kMaxPrograms] = {}, links[kMaxPrograms] = {};
  Query query{};
  query.target = static_cast<std::uint32_t>(link);
  query.type = type;
  query.programs = reinterpret_cast<std::uintptr_t>(programs);
  query.links = reinterpret_cast<std::uintptr_t>(links);
  query.count = kMaxPrograms;
  std::vector<Attached> out;
  if (!ask(query)) return out;
  for (std::size_t i = 0; i < std::min<std::size_t>(query.count, kMaxPrograms); ++i) {
    out.push_back({programs[i], links[i]});
  }
  return out;
}

Fd link_of(std::uint32_t id) {
  Number number{id, 0};
  return Fd(call(BPF_LINK_GET_FD_BY_ID, number));
}

void detach_link(const Fd& fd) {
  std::uint32_t request[] = {static_cast<std::uint32_t>(fd.get()), 0};
  if (call(kLinkDetach, request) != 0 && errno != ENOLINK) throw Error("detach a BPF link", errno);
}

std::optional<LinkInfo> info_of(const Fd& fd) {
  LinkInfo info{};
  InfoRequest request{static_cast<std::uint32_t>(fd.get()), sizeof info,
                      reinterpret_cast<std::uintptr_t>(&info)};
  if (call(BPF_OBJ_GET_INFO_BY_FD, request) != 0) return std::nullopt;
  return info;
}

}  // namespace

std::vector<std::uint32_t> cgroup_programs(const Fd& group, CgroupHook hook) {
  std::vector<std::uint32_t> out(kMaxPrograms);
  Query query{};
  query.target = static_cast<std::uint32_t>(group.get());
  query.type = static_cast<std::uint32_t>(hook);
  query.programs = reinterpret_cast<std::uintptr_t>(out.data());
  query.count = kMaxPrograms;
  out.resize(ask(query) ? std::min<std::size_t>(query.count, kMaxPrograms) : 0);
  return out;
}

std::string program_name(std::uint32_t id) {
  Number number{id, 0};
  const Fd fd(call(BPF_PROG_GET_FD_BY_ID, number));
  bpf_prog_info info{};
  InfoRequest request{static_cast<std::uint32_t>(fd.get()), sizeof info,
                      reinterpret_cast<std::uintptr_t>(&info)};
  if (!fd || call(BPF_OBJ_GET_INFO_BY_FD, request) != 0) return {};
  return {info.name, ::strnlen(info.name, sizeof info.name)};
}

std::vector<std::uint32_t> tcx_programs(int link) {
  std::vector<std::uint32_t> out;
  for (const std::uint32_t type : kTcx) {
    for (const Attached& one : attached_to(link, type)) out.push_back(one.program);
  }
  return out;
}

void detach_tcx(int link, const std::vector<std::uint32_t>& kept) {
  for (const std::uint32_t type : kTcx) {
    for (const Attached& one : attached_to(link, type)) {
      if (is_in(kept, one.program)) continue;
      if (const Fd fd = one.link != 0 ? link_of(one.link) : Fd(); fd) {
        detach_link(fd);
        continue;
      }
      Number program{one.program, 0};
      const Fd fd(call(BPF_PROG_GET_FD_BY_ID, program));
      if (!fd && errno == ENOENT) continue;  // it went with its BPF link
      Detach request{static_cast<std::uint32_t>(link), static_cast<std::uint32_t>(fd.get()), type,
                     0};
      if (!fd || call(BPF_PROG_DETACH, request) != 0) throw Error("detach a tcx program", errno);
    }
  }
}

void detach_xdp_links(int link, const std::vector<std::uint32_t>& kept) {
  Number at{};
  while (call(BPF_LINK_GET_NEXT_ID, at) == 0) {
    at.id = at.next;
    const Fd fd = link_of(at.id);
    const auto info = fd ? info_of(fd) : std::nullopt;
    if (!info || info->type != kLinkOfXdp || info->link != static_cast<std::uint32_t>(link))
      continue;
    if (!is_in(kept, info->program)) detach_link(fd);
  }
}

}  // namespace netlink::bpf

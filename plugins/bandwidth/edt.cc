#include "plugins/bandwidth/edt.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "libcni/common/error.h"
#include "netlink/bpf/loaded.h"
#include "netlink/bpf/object.h"
#include "netlink/netns.h"
#include "netlink/tc/filter.h"
#include "netlink/tc/list.h"
#include "netlink/tc/qdisc.h"
#include "plugins/bandwidth/edt_program.h"

namespace bandwidth::edt {

namespace {

namespace bpf = netlink::bpf;
namespace tc = netlink::tc;

using netlink::cat;
using netlink::Link;
using netlink::RouteSocket;

constexpr const char* kNotBuiltIn = "built without eBPF (CMake option CNI_BPF=OFF)";
// Name and handle identify program and queue as ours, to remove() and to other programs.
constexpr const char* kProgramName = "patchbay_edt";
constexpr tc::Handle kQueueHandle = tc::handle(0xED7), kProgramHandle{0xED7};

tc::Qdisc queue(const Limit& limit) {
  return {.parent = tc::kRoot, .handle = kQueueHandle, .kind = queue_of(limit)};
}

tc::Qdisc hook() { return {.parent = tc::kHook, .handle = tc::kHookHandle, .kind = tc::Clsact{}}; }

// The first of all filters: another one may end the list.
tc::Program filter(int program) {
  return {.parent = tc::kEgress,
          .priority = 1,
          .handle = kProgramHandle,
          .fd = program,
          .name = kProgramName};
}

bool is_ours(const tc::FilterState& seen) {
  return seen.kind == "bpf" && seen.handle == kProgramHandle && seen.program == kProgramName;
}

bool is_ours(const std::optional<tc::QdiscState>& root) {
  return root && root->kind == "fq" && root->handle == kQueueHandle;
}

std::optional<tc::FilterState> find_filter(RouteSocket& pod, const Link& inside) {
  const auto seen = tc::filters(pod, inside, tc::kEgress);
  const auto ours = std::ranges::find_if(seen, [](const auto& f) { return is_ours(f); });
  if (ours == seen.end()) return std::nullopt;
  return *ours;
}

std::vector<bpf::LoadedMap> maps_of(const std::optional<tc::FilterState>& seen) {
  if (!seen || !bpf::is_built_in()) return {};
  auto maps = bpf::maps_of(seen->program_id);
  if (!maps) return {};
  return std::move(*maps);
}

template <class Value>
const bpf::LoadedMap* find_map(const std::vector<bpf::LoadedMap>& maps, std::string_view name) {
  const auto map = std::ranges::find_if(maps, [&](const bpf::LoadedMap& one) {
    return one.name.ends_with(name) && one.value_size == sizeof(Value) && one.max_entries == 1;
  });
  return map == maps.end() ? nullptr : &*map;
}

// Empty if another version loaded the program.
std::optional<EdtConstants> constants_in(const std::vector<bpf::LoadedMap>& maps) {
  const auto* const map = find_map<EdtConstants>(maps, ".rodata");
  return map != nullptr ? bpf::element_as<EdtConstants>(*map, 0) : std::nullopt;
}

// It makes the queue short, not the limit: a link that cannot is limited without.
void set_packet_size(RouteSocket& pod, const Link& inside, unsigned size) {
  if (size == 0) return;  // the kernel did not say
  auto request = netlink::set_link(inside, {.gso_max_size = size});
  request.tolerated = {EINVAL, EOPNOTSUPP};
  pod.send(std::move(request));
}

std::string described(const EdtConstants& constants) {
  return cat(constants.rate, " bytes/s, a burst of ", constants.credit, " ns and a horizon of ",
             constants.horizon, " ns");
}

bool operator==(const EdtConstants& a, const EdtConstants& b) {
  return a.rate == b.rate && a.credit == b.credit && a.horizon == b.horizon && a.latest == b.latest;
}

void require_built_in() {
  if (bpf::is_built_in()) return;
  throw cni::Error(cni::Code::kInvalidConfig,
                   cat("egressMode: \"edt\" is not available: ", kNotBuiltIn));
}

[[noreturn]] void refuse(const Link& inside, const std::string& why) {
  throw cni::Error(cni::Code::kInternal, cat("limit '", inside.name, "': ", why));
}

// Whether our qdisc exists. \throws cni::Error if another program's does.
bool has_queue(RouteSocket& pod, const Link& inside) {
  const auto there = tc::qdisc(pod, inside, tc::kRoot);
  if (there && there->handle != tc::Handle{} && !is_ours(there)) {
    refuse(inside, cat("the root qdisc is '", there->kind, "' with handle ", tc::str(there->handle),
                       ", which belongs to another program"));
  }
  return is_ours(there);
}

// A link's gso_max_size before it was limited. Where the program that knows is gone from our queue,
// it is what the kernel gives every link.
unsigned packet_size_before(const std::optional<EdtConstants>& constants, bool queued,
                            const Link& inside) {
  if (constants) return static_cast<unsigned>(constants->packet_size_before);
  if (queued && inside.gso_max_size != 0) return std::max(inside.gso_max_size, kUsualPacketSize);
  return inside.gso_max_size;
}

// Whether clsact is attached. The qdisc ingress has the same handle, but would apply a filter of
// egress to incoming packets (ingress_tcf_block() in net/sched/sch_ingress.c).
bool has_hook(RouteSocket& pod, const Link& inside) {
  const auto seen = tc::qdisc(pod, inside, tc::kHook);
  if (seen && seen->kind != "clsact") {
    refuse(inside, cat("it has the qdisc ", seen->kind, ", which excludes clsact"));
  }
  return seen.has_value();
}

// Empty on success, else the part that the kernel lacks.
std::string lacks(RouteSocket& socket, netlink::RouteRequest request, const char* what) {
  try {
    socket.send(std::move(request));
  } catch (const netlink::Error& e) {
    return e.error() == ENOENT ? cat("the kernel has no ", what) : e.what();
  }
  return {};
}

}  // namespace

void add(RouteSocket& pod, const Link& inside, const Limit& limit) {
  require_built_in();
  const bool queued = has_queue(pod, inside), hooked = has_hook(pod, inside);
  const auto before = maps_of(hooked ? find_filter(pod, inside) : std::nullopt);
  const auto* const departures = find_map<EdtDepartures>(before, kDepartures);
  const unsigned size_before = packet_size_before(constants_in(before), queued, inside);
  const bpf::Object program =
      load(limit, {departures != nullptr ? &departures->fd : nullptr, size_before});

  // Alone: what is sent with it is done even where the kernel has no fq.
  pod.send(queued ? tc::replace(inside, queue(limit)) : tc::add(inside, queue(limit)));
  if (!hooked) pod.send(tc::add(inside, hook()));
  // The queue comes first: without one the departure times would have no effect.
  pod.send(tc::replace(inside, filter(program.program(kFunction))));
  const unsigned size = packet_size_of(limit, inside.mtu, size_before);
  if (size != inside.gso_max_size) set_packet_size(pod, inside, size);
}

bool remove(RouteSocket& pod, const Link& inside) {
  const auto program = find_filter(pod, inside);
  const bool queued =
      (program || inside.qdisc == "fq") && is_ours(tc::qdisc(pod, inside, tc::kRoot));
  if (!queued && !program) return false;
  const unsigned size = packet_size_before(constants_in(maps_of(program)), queued, inside);
  if (size != inside.gso_max_size) set_packet_size(pod, inside, size);
  // The queue last: as long as it is there, another remove() goes on from where this one was
  // killed.
  if (program) pod.send(tc::remove(inside, filter(-1)));
  const bool used = !tc::filters(pod, inside, tc::kEgress).empty() ||
                    !tc::filters(pod, inside, tc::kIngress).empty();
  if (!used) pod.send(tc::remove(inside, hook()));
  if (queued) pod.send(tc::remove(inside, {tc::kRoot, kQueueHandle, tc::Fq{}}));
  return true;
}

std::optional<std::string> missing(RouteSocket& pod, const Link& inside, const Limit& limit) {
  require_built_in();
  const auto root = tc::qdisc(pod, inside, tc::kRoot);
  if (!is_ours(root)) {
    return cat("the root qdisc of '", inside.name, "' is not fq ", tc::str(kQueueHandle),
               root ? cat(" but ", root->kind, " ", tc::str(root->handle)) : "");
  }
  const auto seen = find_filter(pod, inside);
  if (!seen || !seen->direct_action) {
    return cat("the program '", kProgramName, "' is not attached at the egress hook of '",
               inside.name, "'");
  }
  const auto has = constants_in(maps_of(seen));
  if (!has) return cat("the program of '", inside.name, "' is of another version");
  if (!(*has == constants_of(limit))) {
    return cat("the program of '", inside.name, "' has ", described(*has), ", not ",
               described(constants_of(limit)));
  }
  const auto* const fq = root->as<tc::Fq>();
  const tc::Fq wanted = queue_of(limit);
  if (fq == nullptr || fq->limit != wanted.limit || fq->flow_limit != wanted.flow_limit) {
    return cat("fq ", tc::str(kQueueHandle), " of '", inside.name, "' has other limits");
  }
  return std::nullopt;
}

std::optional<std::string> unusable() try {
  if (!bpf::is_built_in()) return kNotBuiltIn;
  const Limit limit{.rate = 1'000'000, .burst = 10'000, .horizon = std::chrono::seconds(1)};
  const bpf::Object program = load(limit);
  RouteSocket socket(netlink::NetNs::create());
  const Link lo = socket.get("lo");
  auto lacking = lacks(socket, tc::add(lo, queue(limit)), "qdisc fq (sch_fq)");
  if (lacking.empty()) lacking = lacks(socket, tc::add(lo, hook()), "clsact (sch_ingress)");
  if (lacking.empty()) {
    lacking = lacks(socket, tc::replace(lo, filter(program.program(kFunction))),
                    "programs as filters (cls_bpf)");
  }
  if (lacking.empty()) return std::nullopt;
  return lacking;
} catch (const netlink::Error& e) {
  return e.what();
}

}  // namespace bandwidth::edt

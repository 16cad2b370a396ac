#include "plugins/devices/agent/dra/init_devices.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "kubernetes/answer.h"
#include "kubernetes/error.h"
#include "kubernetes/path.h"
#include "libcni/common/error.h"
#include "plugins/devices/agent/dra/slices/withdraw.h"
#include "plugins/devices/agent/log.h"

namespace devices::dra {

namespace {

using cni::cat;

constexpr std::chrono::milliseconds kPodDeadline{2'000};  // ADD waits 10 s by default
constexpr std::chrono::milliseconds kForbiddenPause{200};
constexpr std::size_t kMaxContainers = 1'000;

// A quantity of an extended resource, which is an integer (ValidateExtendedResource of Kubernetes).
std::size_t quantity_of(const nlohmann::json& value) {
  if (value.is_number_unsigned()) return value.get<std::size_t>();
  if (!value.is_string()) return 0;
  const auto& text = value.get_ref<const std::string&>();
  std::size_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() ? out : 0;
}

const nlohmann::json* within(const nlohmann::json& object,
                             std::initializer_list<const char*> path) {
  const nlohmann::json* at = &object;
  for (const char* const key : path) {
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}

bool has(const std::vector<std::string>& ids, const std::string& id) {
  return std::ranges::find(ids, id) != ids.end();
}

Owned listed_of(const std::vector<Owned>& listed, const std::string& resource) {
  const auto found = std::ranges::find(listed, resource, &Owned::resource);
  return found == listed.end() ? Owned{resource, {}} : *found;
}

/// When an Allocate was: several may be within a second.
using Time = std::pair<std::int64_t, std::int64_t>;

Time time_of(const Entry& entry) {
  return {entry.promised, entry.since ? entry.since->boot_time : 0};
}

// Those that one Allocate has promised, if their number says so of one Allocate alone.
std::optional<std::vector<std::string>> only_group(
    const std::map<Time, std::vector<std::string>>& groups, std::size_t count) {
  std::optional<std::vector<std::string>> out;
  for (const auto& [promised, ids] : groups) {
    if (ids.size() != count) continue;
    if (out) return std::nullopt;
    out = ids;
  }
  return out;
}

}  // namespace

std::map<std::string, std::size_t> init_requests(const nlohmann::json& pod) {
  std::map<std::string, std::size_t> out;
  const auto* const containers = within(pod, {"spec", "initContainers"});
  if (containers == nullptr || !containers->is_array() || containers->size() > kMaxContainers) {
    return out;
  }
  for (const nlohmann::json& one : *containers) {
    const auto* const policy = within(one, {"restartPolicy"});
    const auto* const limits = within(one, {"resources", "limits"});  // equal to the requests
    if ((policy != nullptr && *policy == "Always") || limits == nullptr || !limits->is_object()) {
      continue;
    }
    for (const auto& [resource, value] : limits->items()) {
      const std::size_t count = quantity_of(value);
      if (count != 0) out[resource] = std::max(out[resource], count);
    }
  }
  return out;
}

std::vector<std::string> unlisted(const Pod& pod, const Owned& listed, std::size_t count,
                                  const Entries& entries) {
  std::vector<std::string> out;
  std::map<Time, std::vector<std::string>> open;
  std::size_t promises = 0;
  for (const auto& [id, entry] : entries) {
    const bool is_other = entry.claim || entry.resource != listed.resource || has(listed.ids, id);
    if (is_other || !entry.is_readable()) continue;
    if (entry.is_of(pod)) out.push_back(id);
    if (!entry.is_unclaimed()) continue;
    open[time_of(entry)].push_back(id);
    ++promises;
  }
  if (out.size() >= count) return out;
  const std::size_t missing = count - out.size();
  const auto group = only_group(open, missing);
  if (!group) {
    throw cni::Error(
        cni::Code::kTryAgainLater,
        cat("claim devices for ", pod.str(), ": its init containers ask for ", missing, " of ",
            listed.resource, ", and which of ", promises, " promises are theirs is not known"),
        "PodResources does not list init containers; another pod may claim the others meanwhile");
  }
  out.insert(out.end(), group->begin(), group->end());
  return out;
}

InitDevices::InitDevices(Core& core, const Dra& dra, const std::string& ledger)
    : core_(core),
      ledger_(Ledger::create(ledger)),
      client_(access_of(dra), {.connect = kPodDeadline, .deadline = kPodDeadline}) {}

bool InitDevices::may_have(const Pod& pod, const std::vector<Owned>& listed,
                           const Entries& entries) const {
  return std::ranges::any_of(entries, [&](const auto& one) {
    const Entry& entry = one.second;
    const bool is_open = entry.is_unclaimed() || entry.is_of(pod);
    return is_open && !entry.claim && !has(listed_of(listed, entry.resource).ids, entry.id);
  });
}

// A server that has just started refuses everything until it has read the rules of RBAC. Where they
// lack a rule, one pod waits for it, and no further one until it is there.
nlohmann::json InitDevices::get(const std::string& path) {
  const auto end = std::chrono::steady_clock::now() + kPodDeadline;
  for (;;) {
    try {
      auto out = client_.get(path);
      is_forbidden_ = false;
      return out;
    } catch (const kubernetes::ApiError& e) {
      if (e.is_not_found()) is_forbidden_ = false;
      if (!e.is_forbidden() || is_forbidden_) throw;
      const bool is_over = std::chrono::steady_clock::now() + kForbiddenPause >= end;
      if (is_over) is_forbidden_ = true;
      if (is_over || !client_.wait(kForbiddenPause)) throw;
    }
  }
}

nlohmann::json InitDevices::spec_of(const Pod& pod) try {
  const kubernetes::Collection pods{"v1", "pods", pod.space};
  auto out = get(pods.path_of(pod.name));
  // A static pod has another UID there, and a successor is another pod.
  return kubernetes::metadata_of(out, "uid") == pod.uid ? out : nlohmann::json();
} catch (const kubernetes::ApiError& e) {
  if (!e.is_not_found()) {
    log(Level::kError, "look for devices of init containers: the pod may start without them",
        {.pod = pod.str(), .error = e.what()});
  }
  return {};
}

std::vector<Owned> InitDevices::of(const Pod& pod, const std::vector<Owned>& listed) {
  std::vector<Owned> out;
  const Entries before = entries_.all();
  if (!may_have(pod, listed, before)) return out;
  const auto requests = init_requests(spec_of(pod));
  if (requests.empty()) return out;
  const Entries entries = entries_.all();  // the call may have taken its time
  for (const auto& [resource, count] : requests) {
    const Owned known = listed_of(listed, resource);
    if (count <= known.ids.size() || !core_.has_resource(resource)) continue;
    auto ids = unlisted(pod, known, count - known.ids.size(), entries);
    if (!ids.empty()) out.push_back({resource, std::move(ids)});
  }
  return out;
}

}  // namespace devices::dra

#include "plugins/devices/ask.h"

#include <algorithm>
#include <tuple>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "libcni/config/args.h"
#include "libcni/daemon/client.h"
#include "plugins/devices/protocol/message.h"

namespace devices {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;

constexpr const char* kStart = "systemctl status patchbay-agent; journalctl -u patchbay-agent";

// Empty: no answer. What it cannot read is none either.
std::optional<Answer> ask(const cni::Request& request, const Conf& conf, const Pod& pod) try {
  const cni::Phase phase("ask");
  const Question question{
      .pod = pod, .container_id = request.container_id, .network = request.network};
  return answer_in(cni::exchange_line(conf.socket, line_of(question),
                                      std::chrono::seconds(conf.timeout), kMaxAnswer));
} catch (const netlink::Error& e) {
  cni::note(cat("ask patchbay-agent: ", e.what(), "; the ledger decides"));
  return std::nullopt;
} catch (const Error& e) {
  cni::note(cat("ask patchbay-agent: ", e.what(), "; the ledger decides"));
  return std::nullopt;
}

// The ledger is the truth: a device whose entry does not say the same is not attached.
std::vector<Entry> entries_named(const Ledger& ledger, const std::vector<std::string>& ids,
                                 const Pod& pod) {
  std::vector<Entry> out;
  for (const std::string& id : ids) {
    auto entry = ledger.read(id);
    if (!entry || !entry->is_of(pod)) {
      throw Error(Code::kTryAgainLater,
                  cat("device '", id, "' of pod '", pod.str(), "' is not the pod's in the ledger"),
                  cat(ledger.path(), "/", id));
    }
    out.push_back(*std::move(entry));
  }
  return out;
}

std::vector<Entry> of_pod(std::vector<Entry> all, const Pod& pod) {
  std::erase_if(all, [&](const Entry& one) { return !one.is_of(pod); });
  return all;
}

// After a power loss a file may be torn: its device may be any pod's.
void require_readable(const Ledger& ledger, const Ledger::Content& content) {
  if (content.unreadable.empty()) return;
  const std::string& id = content.unreadable.front();
  throw Error(Code::kTryAgainLater,
              cat("device '", id, "' may be this pod's: its entry cannot be read"),
              cat(ledger.path(), "/", id,
                  "; patchbay-agent does not answer, which asks the kubelet: ", kStart));
}

// A device is promised before the sandbox of its pod is made. As long as it is not known which pod
// that is, any may be, also one with other devices: the agent writes a pod into one entry after
// another. A device that was attached before was attached with all others of its pod.
std::optional<Entry> open_for(const std::vector<Entry>& all, const std::vector<Entry>& mine) {
  const auto was_attached = [](const Entry& one) { return one.promised == 0; };
  if (!mine.empty() && std::ranges::all_of(mine, was_attached)) return std::nullopt;
  const auto open = std::ranges::find_if(all, &Entry::is_unclaimed);
  if (open == all.end()) return std::nullopt;
  return *open;
}

// The folder may have been removed with what pods were promised, and made again.
void require_complete(const Ledger& ledger) {
  if (ledger.is_complete()) return;
  throw Error(
      Code::kTryAgainLater,
      cat("the ledger may lack a device of this pod: patchbay-agent has not compared it with "
          "the kubelet yet: '",
          ledger.path(), "'"),
      cat(kStart, "; if patchbay-agent was removed from the node, remove the folder"));
}

// A holder has the pod, and the promise is lost.
void require_promises(const std::vector<Entry>& all, const Pod& pod) {
  const auto lost = std::ranges::find_if(all, [&](const Entry& one) { return one.was_of(pod); });
  if (lost == all.end()) return;
  throw Error(Code::kTryAgainLater,
              cat("device '", lost->id, "' was this pod's, and its entry is lost"),
              cat("patchbay-agent does not answer, which asks the kubelet: ", kStart));
}

std::vector<Entry> by_ledger(const Ledger& ledger, const Pod& pod) {
  require_complete(ledger);
  const auto content = ledger.content();
  require_readable(ledger, content);
  require_promises(content.entries, pod);
  auto out = of_pod(content.entries, pod);
  const auto open = open_for(content.entries, out);
  if (!open) return out;
  throw Error(Code::kTryAgainLater,
              cat("device '", open->id, "' of '", open->resource,
                  "' is promised to a pod that is not known yet, which may be this one"),
              cat("patchbay-agent does not answer: ", kStart));
}

std::vector<Entry> by_answer(const Ledger& ledger, const Pod& pod, const Answer& answer) {
  if (!answer.error) return entries_named(ledger, answer.devices, pod);
  const bool is_complete = ledger.is_complete();
  const auto content = ledger.content();
  auto out = of_pod(content.entries, pod);
  const auto has_uid = [](const Entry& one) { return !one.pod->uid.empty(); };
  const auto is_lost = [&](const Entry& one) { return one.was_of(pod); };
  // kInvalidConfig: the node uses a device since.
  const bool is_known = answer.error->code() != Code::kInvalidConfig && is_complete &&
                        content.unreadable.empty() && !out.empty() &&
                        std::ranges::all_of(out, has_uid) &&
                        std::ranges::none_of(content.entries, is_lost);
  if (!is_known || open_for(content.entries, out)) throw Error(*answer.error);
  cni::note(cat("patchbay-agent: ", answer.error->what(), "; the ledger has the pod's devices"));
  return out;
}

// With the folder of the ledger, as with the rest of /var/lib/cni, what pods were promised may have
// been removed. patchbay-agent ends when it notices that, and leaves its socket.
void require_no_agent(const Conf& conf) {
  if (!cni::Dir::exists(conf.socket)) return;
  try {
    cni::exchange_line(conf.socket, line_of(Question{.verb = Verb::kStatus}),
                       std::chrono::seconds(conf.timeout), kMaxAnswer);
  } catch (const netlink::Error&) {
  }
  throw Error(Code::kTryAgainLater,
              cat("the folder of the ledger was removed: '", conf.ledger_dir, "'"),
              cat("patchbay-agent makes another one when it starts: ", kStart,
                  "; if it was removed from the node, remove '", conf.socket, "'"));
}

// A runtime that passes no UID, as containerd before 1.6: an earlier pod may have had the name.
void require_none_for(const Conf& conf, const Pod& pod) {
  const auto ledger = Ledger::find(conf.ledger_dir);
  if (!ledger || pod.space.empty() || pod.name.empty()) return;
  for (const Entry& one : ledger->all()) {
    const bool has_name = one.pod && one.pod->has_name_of(pod);
    if (!has_name && !one.is_unclaimed() && !one.was_of(pod)) continue;
    throw Error(Code::kInvalidEnvironment, "CNI_ARGS: K8S_POD_UID missing",
                cat("device '", one.id, "' may be the pod's: the runtime must pass its UID"));
  }
}

}  // namespace

std::optional<Pod> pod_of(const cni::Request& request, const Conf& conf) {
  std::string missing;
  const auto take = [&](const char* key) {
    const std::string_view value = cni::value_in_args(request.args, key);
    if (value.empty()) missing += cat(missing.empty() ? "" : ", ", key);
    return std::string(value);
  };
  Pod pod{take("K8S_POD_NAMESPACE"), take("K8S_POD_NAME"), take("K8S_POD_UID")};
  if (missing.empty()) return pod;
  if (!conf.required) {
    require_none_for(conf, pod);
    return std::nullopt;
  }
  throw Error(Code::kInvalidEnvironment, cat("CNI_ARGS: ", missing, " missing"),
              "required: the runtime does not say which pod it is");
}

std::vector<Entry> devices_of(const cni::Request& request, const Conf& conf, const Pod& pod) {
  const auto ledger = Ledger::find(conf.ledger_dir);
  std::vector<Entry> out;
  if (!ledger) {
    require_no_agent(conf);
  } else {
    const auto answer = ask(request, conf, pod);
    out = answer ? by_answer(*ledger, pod, *answer) : by_ledger(*ledger, pod);
  }
  std::ranges::sort(out, {}, [](const Entry& one) { return std::tie(one.resource, one.id); });
  for (Entry& one : out) one.pod = pod;
  if (!out.empty() || !conf.required) return out;
  throw Error(Code::kTryAgainLater, cat("pod '", pod.str(), "' has no device"),
              ledger ? "required: the pod must ask for a resource of patchbay-agent"
                     : cat("patchbay-agent has not run on this node: ", kStart));
}

void require_agent(const Conf& conf) try {
  const Question question{.verb = Verb::kStatus};
  answer_in(cni::exchange_line(conf.socket, line_of(question), std::chrono::seconds(conf.timeout),
                               kMaxAnswer));
} catch (const netlink::Error& e) {
  throw Error(Code::kPluginUnavailable, cat("ask patchbay-agent: ", e.what()), kStart);
}

}  // namespace devices

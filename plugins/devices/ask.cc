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
  return cni::as_error([&] {
    return answer_in(cni::exchange_line(conf.socket, line_of(question),
                                        std::chrono::seconds(conf.timeout), kMaxAnswer));
  });
} catch (const Error& e) {
  cni::note(cat("ask patchbay-agent: ", e.what()));
  return std::nullopt;
}

// The ledger has the plugins that attach a device. One whose entry does not say the same as the
// answer is not attached.
std::vector<Entry> entries_named(const Conf& conf, const std::vector<std::string>& ids,
                                 const Pod& pod) {
  std::vector<Entry> out;
  const auto ledger = Ledger::find(conf.ledger_dir);
  for (const std::string& id : ids) {
    auto entry = ledger ? ledger->read(id) : std::nullopt;
    if (!entry || !entry->is_of(pod)) {
      throw Error(Code::kTryAgainLater,
                  cat("device '", id, "' of pod '", pod.str(), "' is not the pod's in the ledger"),
                  cat(conf.ledger_dir, "/", id));
    }
    out.push_back(*std::move(entry));
    out.back().pod = pod;
  }
  std::ranges::sort(out, {}, [](const Entry& one) { return std::tie(one.resource, one.id); });
  return out;
}

// The devices of claims that were prepared for the pod: the ledger knows it by its UID, also while
// nobody answers. After a boot the name of a link in an entry may be another link's.
std::vector<Entry> claims_of(const Conf& conf, const Pod& pod) {
  std::vector<Entry> out;
  const auto ledger = Ledger::find(conf.ledger_dir);
  if (!ledger || pod.uid.empty()) return out;
  for (Entry& one : ledger->all()) {
    if (!one.claim || !one.pod || one.pod->uid != pod.uid) continue;
    if (one.claim->boot != boot_id()) {
      throw Error(Code::kTryAgainLater,
                  cat("device '", one.id, "' of claim '", one.claim->str(),
                      "': patchbay-agent has not looked for its link since the boot"),
                  cat("patchbay-agent does not answer: ", kStart));
    }
    out.push_back(std::move(one));
  }
  if (const Entry* const one = incomplete_claim(out)) {
    throw Error(Code::kTryAgainLater,
                cat("claim '", one->claim->str(), "' of pod '", pod.str(),
                    "': the ledger has lost ", "some of its ", one->claim->parts, " devices"),
                "delete the pod: another one gets another claim");
  }
  return out;
}

// Of a claim: the kubelet had it prepared for that pod. Without a UID an earlier pod may have had
// the name.
bool is_known(const Entry& entry, const Pod& pod) {
  if (!entry.claim || !entry.pod || entry.is_holder_unreadable) return false;
  return !pod.uid.empty() || !entry.pod->has_name_of(pod);
}

struct Open {
  std::string why;
  std::string path;  ///< what goes with a patchbay-agent that was removed from the node
};

// A device that may be the pod's, where nobody says whose it is. It is promised before the sandbox
// of its pod is made, and that waits no longer when a container of the pod has it. With the folder,
// as with the rest of /var/lib/cni, promises may have been removed: patchbay-agent ends when it
// notices that, and leaves its socket.
std::optional<Open> open_device(const Conf& conf, const Pod& pod) {
  const auto ledger = Ledger::find(conf.ledger_dir);
  if (!ledger) {
    if (!cni::Dir::exists(conf.socket)) return std::nullopt;
    return Open{cat("the folder of the ledger was removed: '", conf.ledger_dir, "'"), conf.socket};
  }
  for (const Entry& one : ledger->all()) {
    if (is_known(one, pod)) continue;
    const bool is_of_other = one.is_held() && one.holder->pod && !one.holder->pod->is(pod);
    if (is_of_other && (!one.is_wanted() || plugins::lives(one.holder->owner))) continue;
    const char* const why = one.is_readable() && !one.is_holder_unreadable
                                ? "no container of another pod has it"
                                : "its entry cannot be read";
    return Open{cat("device '", one.id, "' may be this pod's: ", why),
                cat(ledger->path(), "/", one.id)};
  }
  return std::nullopt;
}

}  // namespace

// A runtime that passes no UID, as containerd before 1.6: an earlier pod may have had the name.
std::optional<Pod> pod_of(const cni::Request& request, const Conf& conf) {
  std::string missing;
  const auto take = [&](const char* key) {
    const std::string_view value = cni::value_in_args(request.args, key);
    if (value.empty()) missing += cat(missing.empty() ? "" : ", ", key);
    return std::string(value);
  };
  Pod pod{take("K8S_POD_NAMESPACE"), take("K8S_POD_NAME"), take("K8S_POD_UID")};
  if (missing.empty()) return pod;
  const bool is_pod = !pod.space.empty() && !pod.name.empty();
  const auto open = is_pod ? open_device(conf, pod) : std::nullopt;
  if (!open && !conf.required) return std::nullopt;
  throw Error(Code::kInvalidEnvironment, cat("CNI_ARGS: ", missing, " missing"),
              cat(open ? open->why : "required", "; the runtime does not say which pod it is"));
}

std::vector<Entry> devices_of(const cni::Request& request, const Conf& conf, const Pod& pod) {
  const bool has_run = cni::Dir::exists(conf.ledger_dir) || cni::Dir::exists(conf.socket);
  const auto answer = has_run ? ask(request, conf, pod) : std::nullopt;
  std::vector<Entry> out;
  if (answer) {
    if (answer->error) throw Error(*answer->error);
    out = entries_named(conf, answer->devices, pod);
  } else if (const auto open = open_device(conf, pod)) {
    throw Error(Code::kTryAgainLater, open->why,
                cat("patchbay-agent does not answer: ", kStart,
                    "; if it was removed from the node, remove '", open->path, "'"));
  } else {
    out = claims_of(conf, pod);
  }
  if (!out.empty() || !conf.required) return out;
  throw Error(Code::kTryAgainLater, cat("pod '", pod.str(), "' has no device"),
              has_run ? "required: the pod must ask for a resource of patchbay-agent"
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

#include "cnitool/operate.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>

#include "cnitool/find_by.h"
#include "cnitool/leftovers.h"
#include "cnitool/status.h"
#include "cnitool/waiting.h"
#include "libcni/common/dir.h"
#include "libcni/common/hash.h"
#include "libcni/common/undo.h"
#include "libcni/config/nearest.h"
#include "libcni/runtime/liveness.h"
#include "netlink/netns.h"

namespace tool {

namespace {

using cni::Attachment;
using nlohmann::ordered_json;

// The attachments of a network that are alive, as far as one may look. One that is unfinished is
// not: where its ADD goes on, the collection waits for it and lets it stay, as that is not what was
// seen.
void add_living(const std::string& network, const cni::Cache::Listing& seen,
                std::vector<Attachment>& keep) {
  for (const cni::CachedAttachment& one : seen.attachments) {
    if (one.key.network != network || one.result->is_null()) continue;
    const cni::Liveness liveness = cni::liveness_of(one.netns, one.key.ifname);
    if (liveness == cni::Liveness::kAlive || liveness == cni::Liveness::kUnknown) {
      keep.push_back({one.key.container_id, one.key.ifname});
    }
  }
}

bool is_kept(const std::vector<Attachment>& keep, const std::string& network,
             const cni::Leftover& one) {
  return std::any_of(keep.begin(), keep.end(), [&](const Attachment& kept) {
    return one.tag == cni::OwnerTag(network, kept.container_id, kept.ifname).prefix();
  });
}

Kept kept_by(const Operation& operation, const std::string& network,
             const cni::Cache::Listing& seen) {
  std::vector<Attachment> keep = operation.keep;
  keep.insert(keep.end(), operation.keep_known.begin(), operation.keep_known.end());
  if (operation.keep_alive) add_living(network, seen, keep);
  return {std::move(keep), operation.keep_alive};
}

// Keeps attachments that the cache does not have but whose pods live: GC would collect what they
// have. The user must name an attachment that nothing identifies.
std::vector<cni::Runtime::Found> add_unlisted(const cni::NetworkList& list,
                                              std::vector<cni::Runtime::Found> found,
                                              std::vector<Attachment>& keep) {
  for (const auto& [plugin, one] : found) {
    if (!one.alive || one.container_id.empty() || one.ifname.empty()) continue;
    if (!is_kept(keep, list.name, one)) keep.push_back({one.container_id, one.ifname});
  }
  for (const auto& [plugin, one] : found) {
    if (!one.alive || !one.container_id.empty() || is_kept(keep, list.name, one)) continue;
    throw cni::Error(cni::Code::kUnknownContainer,
                     cat("keep ", one.what,
                         ": its pod lives, but the cache does not have it, and the "
                         "container's ID is not known"),
                     "name it by --keep CONTAINER:IFNAME; `ip link show` has its alias");
  }
  std::erase_if(found, [](const auto& one) { return one.leftover.alive; });
  return found;
}

// The network's config from the cache: that of the attachment, or else of the newest one.
std::string remembered_config(const std::string& network,
                              const std::optional<cni::AttachmentKey>& key,
                              const std::string& cache_dir) {
  const cni::Cache cache(cache_dir);
  if (key) {
    const auto cached = cache.find(*key);
    return cached ? cached->config : "";
  }
  std::string config;
  std::time_t newest = 0;
  for (const cni::CachedAttachment& one : cache.list().attachments) {
    if (one.key.network != network || one.modified < newest) continue;
    config = one.config;
    newest = one.modified;
  }
  return config;
}

// DEL and GC work although the network's file was removed or is broken: the cache has a config.
cni::NetworkList network_of(const Operation& operation, const Settings& settings) {
  try {
    return find_network(settings, operation.network);
  } catch (const cni::Error& e) {
    if (operation.verb != "del" && operation.verb != "gc") throw;
    std::optional<cni::AttachmentKey> key;
    if (operation.verb == "del") key = key_of(settings, operation.network, operation.netns);
    const std::string config = remembered_config(operation.network, key, settings.cache_dir);
    if (config.empty()) throw;
    cni::note(cat(text_of(e), "; using the cached config of ADD"));
    return cni::list_from(config);
  }
}

std::vector<cni::CachedAttachment> without(const std::vector<Attachment>& keep,
                                           const std::string& network,
                                           const cni::Cache::Listing& seen) {
  std::vector<cni::CachedAttachment> out;
  for (const cni::CachedAttachment& one : seen.attachments) {
    const Attachment whose{one.key.container_id, one.key.ifname};
    const bool is_kept = std::find(keep.begin(), keep.end(), whose) != keep.end();
    if (one.key.network == network && !is_kept) out.push_back(one);
  }
  return out;
}

std::vector<cni::AttachmentKey> keys_of(const std::string& network,
                                        const std::vector<Attachment>& attachments) {
  std::vector<cni::AttachmentKey> out;
  for (const auto& [id, ifname] : attachments) out.push_back({network, id, ifname});
  return out;
}

// A misspelt name keeps nothing, and its pod would be detached.
void require_known(const Operation& operation, const cni::NetworkList& list,
                   const cni::Cache::Listing& seen, const cni::RuntimeOptions& options) {
  for (const Attachment& one : operation.keep_known) {
    const cni::AttachmentKey key{list.name, one.container_id, one.ifname};
    std::vector<std::string> names;
    bool is_known = find_by(seen.broken, &cni::Cache::Broken::name, key.file_name()) != nullptr;
    for (const cni::CachedAttachment& cached : seen.attachments) {
      is_known |= cached.key == key;
      if (cached.key.network != list.name) continue;
      names.push_back(cat(cached.key.container_id, ":", cached.key.ifname));
    }
    if (is_known) continue;
    const auto found = leftovers_of(list, {}, options);
    const auto is_it = [&](const auto& of) { return is_kept({one}, list.name, of.leftover); };
    if (std::any_of(found.begin(), found.end(), is_it)) continue;
    const std::string name = cat(one.container_id, ":", one.ifname);
    const std::string meant = cni::nearest(name, names);
    throw cni::Error(cni::Code::kUnknownContainer,
                     cat("keep '", name, "': network '", list.name, "' has no such attachment",
                         meant.empty() ? "" : cat(" (did you mean ", meant, "?)")),
                     cat("nothing was removed; `cnitool list ", list.name, "` lists all"));
  }
}

// Asks on the terminal. \throws cni::Error unless the answer is yes.
void ask_about(const std::vector<cni::CachedAttachment>& going,
               const std::vector<cni::AttachmentKey>& broken, int stop_fd) {
  std::string pods;
  for (const cni::AttachmentKey& one : broken) {
    pods += cat("  ", one.str(), ", whose cache entry is broken: it may be alive\n");
  }
  for (const cni::CachedAttachment& one : going) {
    if (cni::liveness_of(one.netns, one.key.ifname) != cni::Liveness::kAlive) continue;
    pods += cat("  ", one.key.str(), "\n");
  }
  if (pods.empty()) return;
  cni::note(cat("gc detaches pods that are alive (--keep-alive keeps them, --yes does not ask):\n",
                pods, "Go on? [y/N]"));
  pollfd sources[] = {{STDIN_FILENO, POLLIN, 0}, {stop_fd, POLLIN, 0}};
  char answer = 0;
  const bool is_answered = ::poll(sources, 2, -1) > 0 && sources[1].revents == 0;
  if (!is_answered || ::read(STDIN_FILENO, &answer, 1) != 1 || (answer != 'y' && answer != 'Y')) {
    throw cni::Error(cni::Code::kInvalidEnvironment, "gc: nothing was removed");
  }
}

template <class Fn>
std::optional<cni::Error> failure_of(Fn&& fn) try {
  fn();
  return std::nullopt;
} catch (const cni::Error& e) {
  return e;
}

// The error names the plugin and its reason; this adds what became of the attachments.
cni::Error incomplete(const cni::Error& error, const std::vector<std::string>& stays,
                      const std::vector<std::string>& removed) {
  const auto add = [](std::string& to, const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) to += cat(to.empty() ? "" : "; ", what, joined(names));
  };
  std::string details = error.details();
  add(details, "not removed: ", stays);
  add(details, "removed: ", removed);
  return {error.code(), error.what(), details};
}

// The result is the names of what was removed.
ordered_json collect(const Operation& operation, const Settings& settings,
                     const cni::NetworkList& list, const cni::RuntimeOptions& options) {
  const cni::Cache cache(settings.cache_dir);
  const cni::Cache::Listing seen = cache.list();
  require_known(operation, list, seen, options);
  Kept kept = kept_by(operation, list.name, seen);
  auto& keep = kept.attachments;
  const auto listed = without(keep, list.name, seen);
  std::vector<std::string> stays, removed;
  if (!list.disable_gc && operation.ask) {
    const auto broken =
        kept.living_too ? std::vector<Attachment>() : broken_in(seen, list.name, keep);
    ask_about(listed, keys_of(list.name, broken), options.stop_fd);
  }
  const Waiting waiting(operation.verb);
  std::vector<cni::AttachmentKey> going;
  for (const cni::CachedAttachment& one : listed) going.push_back(one.key);
  const bool has_gc = list.is_at_least("1.1.0");
  if (!list.disable_gc && (has_gc || (kept.living_too && !seen.broken.empty()))) {
    const Unlisted unlisted = unlisted_in(list, options, seen, kept);
    for (auto& key : keys_of(list.name, unlisted.broken)) going.push_back(std::move(key));
    if (has_gc) {
      for (const auto& one : add_unlisted(list, unlisted.found, keep))
        removed.push_back(text_of(one));
    }
  }
  const auto failed = failure_of([&] { cni::Runtime(options).gc(list, keep, seen); });
  for (const cni::AttachmentKey& key : going) {
    const bool is_cached = cni::Dir::exists(cat(cache.dir(), "/results/", key.file_name()));
    (is_cached ? stays : removed).push_back(key.str());
  }
  if (failed) throw incomplete(*failed, stays, removed);
  return {{"removed", removed}};
}

/// What run() would remove of a network: with the plugins' GC and, of the cache, with DEL.
struct Stale {
  std::string network;
  std::vector<std::string> attachments = {};
  std::vector<cni::Runtime::Found> found = {};
};

Stale stale_of(const Operation& operation, const Settings& settings,
               const cni::RuntimeOptions& options) {
  const cni::NetworkList list = network_of(operation, settings);
  const cni::Cache::Listing seen = cni::Cache(options.cache_dir).list();
  require_known(operation, list, seen, options);
  Kept kept = kept_by(operation, list.name, seen);
  Stale out{list.name};
  for (const auto& one : without(kept.attachments, list.name, seen))
    out.attachments.push_back(one.key.str());
  const Unlisted unlisted = unlisted_in(list, options, seen, kept);
  for (const auto& key : keys_of(list.name, unlisted.broken)) out.attachments.push_back(key.str());
  out.found = unlisted.found;
  return out;
}

ordered_json json_of(const Stale& stale) {
  std::vector<cni::Leftover> left;
  for (const auto& one : stale.found) left.push_back(one.leftover);
  return {{"attachments", stale.attachments}, {"found", cni::json_of(left)}};
}

// \param place is where the things are; an attachment's text says it.
void print_text(const Stale& stale, const std::string& place, const Output& output) {
  for (const auto& found : stale.found) {
    const bool lives = found.leftover.alive;
    output.out << (lives ? "" : "would remove ") << text_of(found) << place
               << (lives ? ": stays, its pod lives" : "") << '\n';
  }
  for (const auto& one : stale.attachments) output.out << "would remove " << one << '\n';
}

// A network that cannot be looked at does not hide the others.
void look_for_all_stale(Operation operation, const Settings& settings,
                        const cni::RuntimeOptions& options, const Output& output) {
  ordered_json networks = ordered_json::array();
  std::optional<cni::Error> error;
  for (const std::string& name : network_names(settings)) {
    operation.network = name;
    try {
      const Stale stale = stale_of(operation, settings, options);
      if (!output.json) print_text(stale, cat(" in network '", name, "'"), output);
      networks.push_back({{"network", name}});
      networks.back().update(json_of(stale));
    } catch (const cni::Error& e) {
      if (error) cni::note(text_of(*error));
      error = e;
    }
  }
  if (error) throw *error;
  if (output.json) output.print({{"networks", networks}});
}

void look_for_stale(const Operation& operation, const Settings& settings,
                    const cni::RuntimeOptions& options, const Output& output) {
  const Waiting waiting(operation.verb);
  if (operation.network.empty()) return look_for_all_stale(operation, settings, options, output);
  const Stale stale = stale_of(operation, settings, options);
  output.json ? output.print(json_of(stale)) : print_text(stale, "", output);
}

// A caller that did not get the result will neither use the attachment nor remove it.
[[noreturn]] void take_back(Operation operation, const Settings& settings,
                            const cni::RuntimeOptions& options) {
  operation.verb = "del";
  run(operation, settings, options);
  throw cni::Error(cni::Code::kIoFailure,
                   "write stdout: it is closed or full; the attachment was rolled back");
}

// A hint is for what is known: without a descriptor to look with, nothing is.
bool is_missing(const std::string& netns) try {
  return !netlink::NetNs::find(netns);
} catch (const netlink::Error&) {
  return false;
}

}  // namespace

ordered_json run(const Operation& operation, const Settings& settings,
                 const cni::RuntimeOptions& options) {
  const cni::Runtime runtime(options);
  const cni::NetworkList list = network_of(operation, settings);
  const std::string& verb = operation.verb;
  if (verb == "gc") return collect(operation, settings, list, options);
  const Waiting waiting(verb);
  if (verb == "status") {
    runtime.status(with_status(runtime, list));
  } else {
    const cni::Target target = target_of(settings, operation.netns);
    if (verb == "add") return runtime.add(list, target);
    verb == "del" ? runtime.del(list, target) : runtime.check(list, target);
  }
  return ordered_json::object();
}

void operate(const Operation& operation, const Settings& settings,
             const cni::RuntimeOptions& options, const Output& output) {
  if (operation.dry_run) return look_for_stale(operation, settings, options, output);
  const ordered_json result = run(operation, settings, options);
  if (operation.verb == "add") {
    // Prints no line break after it, as plugins and the reference do.
    output.out << result.dump(4, ' ', false, ordered_json::error_handler_t::replace);
    if (output.terminal) output.out << '\n';
    if (!output.out.flush()) take_back(operation, settings, options);
  } else if (output.json) {
    ordered_json doc{{"operation", operation.verb}, {"network", operation.network}, {"ok", true}};
    doc.update(result);
    output.print(doc);
  } else if (operation.verb == "gc") {
    for (const auto& one : result["removed"]) {
      output.out << "removed " << one.get<std::string>() << '\n';
    }
  }
}

std::string hint_for(const cni::Error& error, const Operation& operation,
                     const Settings& settings) {
  const std::string_view what = error.what();
  const auto says = [&what](std::string_view text) { return what.find(text) != what.npos; };
  if (says("no net configuration")) return hint_for_network(settings, operation.network);
  const std::string place = cat("read '", settings.conf_dir);
  if (what.starts_with(place)) {  // a file of the directory
    const auto end = what.find('\'', place.size());
    return cat("`cnitool validate ", what.substr(6, end - 6), "` shows where");
  }
  if (says("failed to find plugin")) {
    return "set CNI_PATH or --path to the directories of plugins, separated by ':'";
  }
  if (operation.verb == "add" && is_missing(operation.netns)) {
    const std::string named = cat("/run/netns/", operation.netns);
    if (operation.netns.find('/') == std::string::npos && !is_missing(named)) {
      return cat("expected the path of a network namespace: ", named);
    }
    return cat("no network namespace at '", operation.netns,
               "'; `ip netns add NAME` creates /run/netns/NAME");
  }
  if (::geteuid() != 0 && (says("ermission denied") || says("not permitted"))) {
    return "run cnitool as root";
  }
  return {};
}

}  // namespace tool

#include "cnitool/operate.h"

#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>

#include "cnitool/gc.h"
#include "cnitool/status.h"
#include "cnitool/waiting.h"
#include "libcni/common/undo.h"
#include "netlink/netns.h"

namespace tool {

namespace {

using nlohmann::ordered_json;

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

}  // namespace

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

namespace {

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
  if (verb == "gc") return collect(operation, list, options);
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

bool operate(const Operation& operation, const Settings& settings,
             const cni::RuntimeOptions& options, const Output& output) {
  if (operation.dry_run) return look_for_stale(operation, settings, options, output);
  const ordered_json result = run(operation, settings, options);
  const bool is_done = !result.contains("unknown") || result["unknown"].empty();
  if (operation.verb == "add") {
    // Prints no line break after it, as plugins and the reference do.
    output.out << result.dump(4, ' ', false, ordered_json::error_handler_t::replace);
    if (output.terminal) output.out << '\n';
    if (!output.out.flush()) take_back(operation, settings, options);
  } else if (output.json) {
    ordered_json doc{
        {"operation", operation.verb}, {"network", operation.network}, {"ok", is_done}};
    doc.update(result);
    output.print(doc);
  } else if (operation.verb == "gc") {
    for (const auto& one : result["removed"]) {
      output.out << "removed " << one.get<std::string>() << '\n';
    }
  }
  return is_done;
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

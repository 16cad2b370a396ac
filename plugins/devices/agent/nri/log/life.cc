#include "plugins/devices/agent/nri/log/life.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "libcni/common/now_text.h"

namespace devices::nri {

namespace {

using Json = nlohmann::ordered_json;

// Words of the life; empty for events that are not logged.
std::string_view word_of(Event event) {
  switch (event) {
    case Event::kRunSandbox:
      return "sandbox run";
    case Event::kStopSandbox:
      return "sandbox stop";
    case Event::kRemoveSandbox:
      return "sandbox remove";
    case Event::kPostCreateContainer:
      return "container create";
    case Event::kStartContainer:
      return "container start";
    case Event::kStopContainer:
      return "container stop";
    case Event::kRemoveContainer:
      return "container remove";
    default:
      return {};
  }
}

void add_if(Json& out, const char* key, const std::string& value) {
  if (!value.empty()) out[key] = value;
}

Json json_of(const std::vector<Attached>& interfaces) {
  Json out = Json::array();
  for (const Attached& one : interfaces) {
    Json item = {{"name", one.name}};
    add_if(item, "mac", one.mac);
    item["addresses"] = one.addresses;
    out.push_back(std::move(item));
  }
  return out;
}

// ASCII alone: a terminal or a reader of lines sees no control character that a pod has chosen.
std::string text_of(const Json& line) {
  return line.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace

Life::Life(std::string cache_dir, Write write)
    : cache_dir_(std::move(cache_dir)), write_(std::move(write)) {}

void Life::connected(const Configuration& runtime) {
  Json line = {{"time", cni::now_text()}, {"event", "connected"}};
  add_if(line, "runtime", runtime.runtime);
  add_if(line, "version", runtime.version);
  write_(text_of(line));
}

// Pods that were logged before a restart of the runtime are not logged again.
void Life::synchronized(const std::vector<Sandbox>& listed) {
  std::set<std::string> ids;
  for (const Sandbox& one : listed) ids.insert(one.id);
  auto interfaces = interfaces_of(cache_dir_, ids);
  for (const Sandbox& one : listed) {
    const bool is_new = !known_.contains(one.id);
    Known known = with_earlier(one, std::move(interfaces[one.id]));
    if (is_new) write("sandbox exists", known);
    keep(std::move(known));
  }
  for (auto one = known_.begin(); one != known_.end();) {
    if (ids.contains(one->first)) {
      ++one;
      continue;
    }
    write("sandbox vanished", one->second);
    one = known_.erase(one);
  }
}

// An event may come after the sandbox was removed: it is not kept then, or it would vanish later.
void Life::happened(Event event, const Sandbox& sandbox, const Container* container) {
  const std::string_view word = word_of(event);
  if (word.empty()) return;
  Known known = with_earlier(sandbox, interfaces_of(cache_dir_, {sandbox.id})[sandbox.id]);
  write(word, known, container);
  if (event == Event::kRemoveSandbox) {
    known_.erase(sandbox.id);
  } else if (event == Event::kRunSandbox || known_.contains(sandbox.id)) {
    keep(std::move(known));
  }
}

Life::Known Life::with_earlier(const Sandbox& sandbox, std::vector<Attached> interfaces) const {
  Known out{sandbox, std::move(interfaces)};
  const auto before = known_.find(sandbox.id);
  if (before == known_.end()) return out;
  const auto& [earlier, attached] = before->second;
  if (out.sandbox.netns.empty()) out.sandbox.netns = earlier.netns;
  if (out.sandbox.ips.empty()) out.sandbox.ips = earlier.ips;
  if (out.interfaces.empty()) out.interfaces = attached;
  return out;
}

void Life::keep(Known known) {
  const std::string id = known.sandbox.id;
  if (known_.size() >= kMaxSandboxes && !known_.contains(id)) known_.clear();
  known_.insert_or_assign(id, std::move(known));
}

void Life::write(std::string_view event, const Known& of, const Container* container) const {
  Json line = {{"time", cni::now_text()}, {"event", event},        {"namespace", of.sandbox.space},
               {"pod", of.sandbox.name},  {"uid", of.sandbox.uid}, {"sandbox", of.sandbox.id}};
  add_if(line, "netns", of.sandbox.netns);
  if (!of.interfaces.empty()) line["interfaces"] = json_of(of.interfaces);
  if (!of.sandbox.ips.empty()) line["ips"] = of.sandbox.ips;
  if (container != nullptr) {
    line["container"] = container->name;
    line["containerID"] = container->id;
  }
  write_(text_of(line));
}

}  // namespace devices::nri

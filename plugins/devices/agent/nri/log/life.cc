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
  for (const Sandbox& one : listed) {
    ids.insert(one.id);
    const bool is_new = !known_.contains(one.id);
    const Known& known = note(one);
    if (is_new) write("sandbox exists", known);
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

void Life::happened(Event event, const Sandbox& sandbox, const Container* container) {
  const std::string_view word = word_of(event);
  if (word.empty()) return;
  write(word, note(sandbox), container);
  if (event == Event::kRemoveSandbox) known_.erase(sandbox.id);
}

const Life::Known& Life::note(const Sandbox& sandbox) {
  if (known_.size() >= kMaxSandboxes && !known_.contains(sandbox.id)) known_.clear();
  Known& known = known_[sandbox.id];
  Sandbox before = std::exchange(known.sandbox, sandbox);
  if (known.sandbox.netns.empty()) known.sandbox.netns = std::move(before.netns);
  if (known.sandbox.ips.empty()) known.sandbox.ips = std::move(before.ips);
  auto interfaces = interfaces_of(cache_dir_, sandbox.id);
  if (!interfaces.empty()) known.interfaces = std::move(interfaces);
  return known;
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

#include "plugins/devices/agent/nri/watch.h"

#include <exception>
#include <utility>
#include <vector>

#include "plugins/devices/agent/log.h"

namespace devices::nri {

namespace {

constexpr const char* kIndex = "90";  // it changes nothing: after those that do

Pod pod_of(const Sandbox& sandbox) { return {sandbox.space, sandbox.name, sandbox.uid}; }

}  // namespace

std::vector<Pod> Seen::list(const std::vector<Sandbox>& listed) {
  std::map<std::string, Pod> now;
  for (const Sandbox& one : listed) now.emplace(one.id, pod_of(one));
  std::vector<Pod> out;
  for (const auto& [id, pod] : std::exchange(sandboxes_, now)) {
    if (!now.contains(id)) out.push_back(pod);
  }
  return out;
}

void Seen::add(const Sandbox& sandbox) {
  if (sandboxes_.size() < kMaxSandboxes) sandboxes_.emplace(sandbox.id, pod_of(sandbox));
}

bool Seen::end(const Sandbox& sandbox) { return sandboxes_.erase(sandbox.id) != 0; }

SandboxWatch::SandboxWatch(std::string socket, std::function<void(const Pod&)> ended)
    : ended_(std::move(ended)),
      connection_(loop_, {std::move(socket)}, {"patchbay-agent", kIndex},
                  {.synchronized =
                       [this](const std::vector<Sandbox>& listed) {
                         for (const Pod& pod : seen_.list(listed)) ended_(pod);
                       },
                   .happened =
                       [this](Event event, const Sandbox& sandbox, const Container*) {
                         if (event == Event::kRunSandbox) return seen_.add(sandbox);
                         seen_.end(sandbox);
                         ended_(pod_of(sandbox));
                       }}),
      thread_([this] {
        loop_.run([](const std::exception& e) {
          log(Level::kError, "see pods by NRI", {.error = e.what()});
        });
      }) {}

SandboxWatch::~SandboxWatch() {
  loop_.stop();
  thread_.join();
}

}  // namespace devices::nri

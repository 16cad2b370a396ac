// Calls of a container runtime by NRI, and annotations of pods. The first byte selects: 'b' bytes
// of the multiplexer, 'd', 'c' and 's' an annotation (devices, CDI devices, sysctls), 'y' YAML,
// others a method, whose payload the rest is.
#include <nri.pb.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kubernetes/yaml.h"
#include "plugins/devices/agent/nri/inject/wanted.h"
#include "plugins/devices/agent/nri/session.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace devices::nri;
using fuzz::require;

const char* const kMethods[] = {"Configure",        "Synchronize",      "StateChange",
                                "CreateContainer",  "RunPodSandbox",    "StopPodSandbox",
                                "RemovePodSandbox", "UpdateContainer",  "StopContainer",
                                "RemoveContainer",  "UpdatePodSandbox", "Explode"};

const Policy kPolicy{
    .allowed = {"shop"}, .find = [](const std::string& path) {
      return path == "/dev/null" ? std::optional(HostNode{'c', 1, 3}) : std::nullopt;
    }};

void check(const Adjustment& adjustment) {
  for (const DeviceNode& one : adjustment.nodes) {
    require(one.path.starts_with("/dev/") && one.path.find("/../") == std::string::npos,
            "a device is below /dev");
    require(one.type == 'c' || one.type == 'b', "a device is of characters or blocks");
  }
  for (const auto& [key, value] : adjustment.sysctl) {
    require(key.starts_with("net.") && key.find('/') == std::string::npos, "a sysctl is of net");
    require(value.find('\n') == std::string::npos, "a value is a line");
  }
  for (const std::string& one : adjustment.cdi) {
    require(one[0] != '-', "no CDI device is removed");
  }
}

void check(const Sandbox& one) {
  require(std::max({one.id.size(), one.name.size(), one.uid.size(), one.netns.size()}) <= kMaxText,
          "texts have a limit");
  require(one.ips.size() <= kMaxIps, "addresses have a limit");
}

const Plugin kPlugin{
    .events = kSandboxEvents | bit(Event::kCreateContainer) | bit(Event::kStopContainer),
    .configured = [](const Configuration&) {},
    .synchronized =
        [](const std::vector<Sandbox>& listed) {
          require(listed.size() <= kMaxSandboxes, "a list has a limit");
          for (const Sandbox& one : listed) check(one);
        },
    .happened = [](Event, const Sandbox& one, const Container*) { check(one); },
    .create =
        [](const Sandbox& sandbox, const Container& container) {
          check(sandbox);
          Adjustment out = wanted_by(sandbox, container, kPolicy);
          check(out);
          return out;
        }};

// Each call has its answer.
void call(const char* method, std::string_view payload) {
  Session session({"fuzz", "00"}, kPlugin);
  session.take();
  nri_wire::Request request;
  request.set_service("nri.pkg.api.v1alpha1.Plugin");
  request.set_method(method);
  request.set_payload(std::string(payload));
  std::string bytes;
  append_message(bytes, kPluginService, {7, Kind::kRequest, request.SerializeAsString()});
  session.receive(bytes);
  FrameReader frames;
  MessageReader messages;
  frames.add(session.take());
  while (const auto frame = frames.next()) messages.add(frame->payload);
  const auto answer = messages.next();
  require(answer && answer->stream == 7 && answer->kind == Kind::kResponse, "a call has an answer");
  nri_wire::Response response;
  require(response.ParseFromString(answer->data), "an answer is a message");
  require(!session.is_partial() && !messages.next(), "a call has one answer");
}

void annotate(const char* key, std::string_view value) {
  fuzz::accepts([&] {
    const Sandbox sandbox{.id = "a",
                          .name = "b",
                          .uid = "c",
                          .space = "shop",
                          .netns = "/run/netns/d",
                          .ips = {},
                          .annotations = {{key, std::string(value)}}};
    check(wanted_by(sandbox, {"e", "main"}, kPolicy));
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes = fuzz::text_of(data, size);
  if (bytes.empty()) return 0;
  const char which = bytes[0];
  bytes.remove_prefix(1);
  if (which == 'b') {
    fuzz::accepts([&] {
      Session session({"fuzz", "00"}, kPlugin);
      session.receive(bytes);
    });
  } else if (which == 'y') {
    fuzz::accepts([&] {
      const auto value = kubernetes::parse_yaml(bytes, "YAML");
      require(kubernetes::parse_yaml(value.dump(-1, ' ', true), "YAML") == value,
              "YAML as JSON is read as the same");
    });
  } else if (which == 'd') {
    annotate("devices.noderesource.dev", bytes);
  } else if (which == 'c') {
    annotate("cdi-devices.noderesource.dev/pod", bytes);
  } else if (which == 's') {
    annotate("sysctl.noderesource.dev/container.main", bytes);
  } else {
    call(kMethods[static_cast<unsigned char>(which) % std::size(kMethods)], bytes);
  }
  return 0;
}

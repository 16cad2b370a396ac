#include "plugins/devices/agent/nri/session.h"

#include <nri.pb.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>

#include "libcni/common/error.h"

namespace devices::nri {

namespace {

using cni::cat;
using cni::Code;

constexpr std::string_view kPluginName = "nri.pkg.api.v1alpha1.Plugin";
constexpr std::string_view kRuntimeName = "nri.pkg.api.v1alpha1.Runtime";
constexpr std::uint32_t kRegistration = 1;  // stream ID: it is our only call
constexpr std::size_t kMaxSentence = 1024;  // of an error

// google.rpc.Code
enum Refusal : int { kInvalidArgument = 3, kFailedPrecondition = 9, kUnimplemented = 12 };

struct Refused : std::exception {
  Refused(Refusal code_, std::string text_) : code(code_), text(std::move(text_)) {}
  const char* what() const noexcept override { return text.c_str(); }
  Refusal code;
  std::string text;
};

// Events that have calls of their own from 0.12 on, by their method. The earlier versions have
// StateChange for most of them.
struct Method {
  std::string_view name;
  std::optional<Event> event;  // empty: answered, and nobody wants to hear of it
};
constexpr Method kMethods[] = {
    {"RunPodSandbox", Event::kRunSandbox},
    {"StopPodSandbox", Event::kStopSandbox},
    {"RemovePodSandbox", Event::kRemoveSandbox},
    {"PostCreateContainer", Event::kPostCreateContainer},
    {"StartContainer", Event::kStartContainer},
    {"PostStartContainer", Event::kPostStartContainer},
    {"UpdateContainer", Event::kUpdateContainer},
    {"PostUpdateContainer", Event::kPostUpdateContainer},
    {"StopContainer", Event::kStopContainer},
    {"RemoveContainer", Event::kRemoveContainer},
    {"UpdatePodSandbox", std::nullopt},
    {"PostUpdatePodSandbox", std::nullopt},
    {"Shutdown", std::nullopt},
};

template <class Message>
Message read(const std::string& payload) {
  Message out;
  if (!out.ParseFromString(payload)) throw Refused(kInvalidArgument, "it is no message");
  return out;
}

std::string cut(const std::string& text) { return text.substr(0, kMaxText); }

Sandbox sandbox_of(const nri_wire::PodSandbox& pod) {
  Sandbox out{.id = cut(pod.id()),
              .name = cut(pod.name()),
              .uid = cut(pod.uid()),
              .space = cut(pod.namespace_()),
              .netns = {},
              .ips = {}};
  for (const auto& one : pod.linux().namespaces()) {
    if (one.type() == "network") out.netns = cut(one.path());
  }
  for (int i = 0; i < pod.ips_size() && out.ips.size() < kMaxIps; ++i) {
    out.ips.push_back(pod.ips(i).substr(0, kMaxIp));
  }
  return out;
}

Container container_of(const nri_wire::Container& one) { return {cut(one.id()), cut(one.name())}; }

void write(const DeviceNode& node, nri_wire::LinuxDevice& out) {
  out.set_path(node.path);
  out.set_type(std::string(1, node.type));
  out.set_major(node.major);
  out.set_minor(node.minor);
  if (node.mode) out.mutable_file_mode()->set_value(*node.mode);
  if (node.uid) out.mutable_uid()->set_value(*node.uid);
  if (node.gid) out.mutable_gid()->set_value(*node.gid);
}

std::string text_of(const Adjustment& adjustment) {
  nri_wire::CreateContainerResponse out;
  if (adjustment.empty()) return {};
  auto& adjust = *out.mutable_adjust();
  for (const DeviceNode& node : adjustment.nodes) {
    write(node, *adjust.mutable_linux()->add_devices());
  }
  for (const auto& [key, value] : adjustment.sysctl) {
    nri_wire::Pair& pair = *adjust.mutable_linux()->add_sysctl();
    pair.set_key(key);
    pair.set_value(value);
  }
  for (const std::string& name : adjustment.cdi) adjust.add_cdi_devices()->set_name(name);
  return out.SerializeAsString();
}

std::string refusal_of(Refusal code, std::string_view text) {
  nri_wire::Response out;
  out.mutable_status()->set_code(code);
  out.mutable_status()->set_message(std::string(text.substr(0, kMaxSentence)));
  return out.SerializeAsString();
}

std::string success_of(std::string payload) {
  nri_wire::Response out;
  out.set_payload(std::move(payload));
  return out.SerializeAsString();
}

}  // namespace

Session::Session(const Identity& identity, const Plugin& plugin) : plugin_(plugin) {
  nri_wire::RegisterPluginRequest body;
  body.set_plugin_name(identity.name);
  body.set_plugin_idx(identity.index);
  nri_wire::Request request;
  request.set_service(std::string(kRuntimeName));
  request.set_method("RegisterPlugin");
  request.set_payload(body.SerializeAsString());
  append_message(out_, kRuntimeService,
                 {kRegistration, Kind::kRequest, request.SerializeAsString()});
}

// The runtime's Configure may come before its answer to RegisterPlugin.
void Session::receive(std::string_view bytes) {
  frames_.add(bytes);
  while (const auto frame = frames_.next()) {
    if (frame->connection == kPluginService) {
      calls_.add(frame->payload);
      while (const auto call = calls_.next()) serve(*call);
    } else if (frame->connection == kRuntimeService) {
      answers_.add(frame->payload);
      while (const auto answer = answers_.next()) read_answer(*answer);
    }  // frames of other connections are dropped, as the runtime does it
  }
}

void Session::read_answer(const Message& answer) {
  if (answer.kind != Kind::kResponse || answer.stream != kRegistration) return;
  nri_wire::Response response;
  if (!response.ParseFromString(answer.data)) {
    throw cni::Error(Code::kDecodingFailure, "register: the answer is no message");
  }
  if (response.status().code() == 0) return;
  throw cni::Error(Code::kTryAgainLater, cat("register: the runtime refuses it: ",
                                             response.status().message().substr(0, kMaxSentence)));
}

void Session::serve(const Message& call) {
  ++count_;
  if (call.kind != Kind::kRequest || call.stream == 0) {
    throw cni::Error(Code::kDecodingFailure, "serve: it is no call");
  }
  std::string answer;
  try {
    const auto request = read<nri_wire::Request>(call.data);
    if (request.service() != kPluginName) throw Refused(kUnimplemented, "unknown service");
    answer = success_of(answer_to(request.method(), request.payload()));
  } catch (const Refused& e) {
    answer = refusal_of(e.code, e.text);
  } catch (const std::exception& e) {
    answer = refusal_of(kFailedPrecondition, e.what());
  }
  append_message(out_, kPluginService, {call.stream, Kind::kResponse, std::move(answer)});
}

std::string Session::answer_to(std::string_view method, const std::string& payload) {
  if (method == "Configure") return configure(payload);
  if (method == "Synchronize") return synchronize(payload);
  if (method == "StateChange") return state_change(payload);
  if (method == "CreateContainer") return create(payload);
  const auto* const found = std::ranges::find(kMethods, method, &Method::name);
  if (found == std::end(kMethods)) throw Refused(kUnimplemented, "unknown method");
  if (!found->event) return {};
  const auto event = read<nri_wire::PodEvent>(payload);
  const Container container = container_of(event.container());
  happen(*found->event, sandbox_of(event.pod()), event.has_container() ? &container : nullptr);
  return {};
}

std::string Session::configure(const std::string& payload) {
  const auto request = read<nri_wire::ConfigureRequest>(payload);
  if (plugin_.configured) {
    plugin_.configured(
        {request.config(), cut(request.runtime_name()), cut(request.runtime_version())});
  }
  nri_wire::ConfigureResponse out;
  out.set_events(static_cast<std::int32_t>(plugin_.events));
  return out.SerializeAsString();
}

// A long list comes in parts. Each but the last is answered by the demand for more.
std::string Session::synchronize(const std::string& payload) {
  const auto request = read<nri_wire::SynchronizeRequest>(payload);
  if (listed_.size() + static_cast<std::size_t>(request.pods_size()) > kMaxSandboxes) {
    listed_.clear();
    throw Refused(kInvalidArgument, cat("more than ", kMaxSandboxes, " sandboxes"));
  }
  for (const auto& pod : request.pods()) listed_.push_back(sandbox_of(pod));
  nri_wire::SynchronizeResponse out;
  out.set_more(request.more());
  if (!request.more()) {
    is_synchronized_ = true;
    auto listed = std::exchange(listed_, {});
    if (plugin_.synchronized) plugin_.synchronized(std::move(listed));
  }
  return out.SerializeAsString();
}

std::string Session::state_change(const std::string& payload) {
  const auto request = read<nri_wire::StateChangeEvent>(payload);
  const int number = request.event();
  if (number < 1 || number > static_cast<int>(Event::kRemoveContainer)) return {};
  const Container container = container_of(request.container());
  happen(static_cast<Event>(number), sandbox_of(request.pod()),
         request.has_container() ? &container : nullptr);
  return {};
}

std::string Session::create(const std::string& payload) {
  if (!plugin_.create) return {};
  const auto request = read<nri_wire::PodEvent>(payload);
  Sandbox sandbox = sandbox_of(request.pod());
  for (const nri_wire::Pair& pair : request.pod().annotations()) {
    sandbox.annotations.insert_or_assign(pair.key(), pair.value());
  }
  return text_of(plugin_.create(sandbox, container_of(request.container())));
}

void Session::happen(Event event, const Sandbox& sandbox, const Container* container) {
  if ((plugin_.events & bit(event)) == 0 || !plugin_.happened) return;
  plugin_.happened(event, sandbox, container);
}

}  // namespace devices::nri

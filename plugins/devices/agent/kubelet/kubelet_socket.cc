#include "plugins/devices/agent/kubelet/kubelet_socket.h"

#include <deviceplugin.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <chrono>

#include "libcni/common/error.h"
#include "libcni/daemon/listener.h"
#include "plugins/devices/agent/kubelet/clean.h"
#include "plugins/devices/agent/kubelet/limits.h"

namespace devices {

namespace {

using cni::cat;

// The kubelet has 10 s to call back before it answers.
constexpr std::chrono::seconds kRegisterDeadline{15};

std::unique_ptr<v1beta1::Registration::Stub> registration_at(const std::string& path) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  // Not the connection of an earlier kubelet, nor its wait before the next attempt.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return v1beta1::Registration::NewStub(
      grpc::CreateCustomChannel(cat("unix:", path), grpc::InsecureChannelCredentials(), arguments));
}

}  // namespace

std::optional<KubeletSocket::Stamp> KubeletSocket::stamp() const {
  constexpr std::int64_t kSecond = 1'000'000'000;
  struct stat found {};
  if (::stat(path_.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return {};
  return Stamp{found.st_ino, found.st_ctim.tv_sec * kSecond + found.st_ctim.tv_nsec};
}

bool KubeletSocket::has_listener() const { return cni::has_listener(path_); }

void KubeletSocket::register_plugin(const std::string& resource, const std::string& socket_name) {
  v1beta1::RegisterRequest request;
  request.set_version("v1beta1");
  request.set_endpoint(socket_name);
  request.set_resource_name(resource);
  request.mutable_options()->set_get_preferred_allocation_available(true);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kRegisterDeadline);
  {
    const std::lock_guard hold(mutex_);
    if (stopping_) context.TryCancel();
    waiting_ = &context;
  }
  v1beta1::Empty answer;
  const grpc::Status status = registration_at(path_)->Register(&context, request, &answer);
  {
    const std::lock_guard hold(mutex_);
    waiting_ = nullptr;
  }
  if (status.ok()) return;
  throw cni::Error(cni::Code::kTryAgainLater,
                   cat("register at '", path_, "': ", clean(status.error_message())));
}

void KubeletSocket::stop() {
  const std::lock_guard hold(mutex_);
  stopping_ = true;
  if (waiting_ != nullptr) waiting_->TryCancel();
}

}  // namespace devices

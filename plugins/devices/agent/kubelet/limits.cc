#include "plugins/devices/agent/kubelet/limits.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <ctime>
#include <string>

#include "libcni/common/error.h"
#include "plugins/devices/agent/log.h"

namespace devices {

std::shared_ptr<grpc::Channel> channel_to(const std::string& path, int most) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(most);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(cni::cat("unix:", path), grpc::InsecureChannelCredentials(),
                                   arguments);
}

std::string clean(const std::string& text, std::size_t most) {
  std::string out = text.substr(0, most);
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  if (text.size() > most) out += "...";
  return out;
}

namespace {

void log_rarely(std::atomic<std::time_t>& last, const char* library, const std::string& text) {
  const std::time_t now = std::time(nullptr);
  if (last.exchange(now) != now) log(Level::kWarning, library, {.error = clean(text)});
}

void log_of_grpc(gpr_log_func_args* line) {
  static std::atomic<std::time_t> last = 0;
  log_rarely(last, "gRPC", line->message);
}

// Logs a message that is not UTF-8, for example: the call fails besides.
void log_of_protobuf(google::protobuf::LogLevel level, const char* /*file*/, int /*line*/,
                     const std::string& text) {
  static std::atomic<std::time_t> last = 0;
  if (level >= google::protobuf::LOGLEVEL_ERROR) log_rarely(last, "protobuf", text);
}

}  // namespace

void take_library_logs() {
  gpr_set_log_function(log_of_grpc);
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  google::protobuf::SetLogHandler(log_of_protobuf);
}

}  // namespace devices

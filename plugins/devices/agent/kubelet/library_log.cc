#include "plugins/devices/agent/kubelet/library_log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <atomic>
#include <ctime>
#include <string>

#include "plugins/devices/agent/kubelet/clean.h"
#include "plugins/devices/agent/log.h"

namespace devices {

namespace {

void log_rarely(std::atomic<std::time_t>& last, const char* library, const std::string& text) {
  const std::time_t now = std::time(nullptr);
  if (last.exchange(now) != now) log(Level::kWarning, library, {.error = clean(text)});
}

void log_of_grpc(gpr_log_func_args* line) {
  static std::atomic<std::time_t> last = 0;
  log_rarely(last, "gRPC", line->message);
}

// Of a message that is not UTF-8, for example: the call fails besides.
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

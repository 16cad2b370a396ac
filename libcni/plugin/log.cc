#include "libcni/plugin/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "libcni/common/now_text.h"
#include "libcni/common/undo.h"
#include "libcni/config/args.h"
#include "libcni/config/names.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/suite.h"
#include "netlink/types/fd.h"

namespace cni {

namespace {

using nlohmann::ordered_json;
using std::chrono::microseconds;

// A plugin's output may be in an error's details, a megabyte of it.
std::string cut(std::string_view text) {
  constexpr std::size_t kMax = 4096;
  return text.size() <= kMax ? std::string(text) : cat(text.substr(0, kMax), "...");
}

void set(ordered_json& line, const char* key, std::string_view text) {
  if (!text.empty()) line[key] = cut(text);
}

// The attachment of the call.
void set_attachment(ordered_json& line, const Env& env) {
  if (lookup(env, "CNI_COMMAND") == "VERSION") return;  // its variables mean nothing
  set(line, "container", lookup(env, "CNI_CONTAINERID"));
  set(line, "ifname", lookup(env, "CNI_IFNAME"));
  set(line, "netns", lookup(env, "CNI_NETNS"));
  const auto args = lookup(env, "CNI_ARGS");
  set(line, "pod",
      pod_name(value_in_args(args, "K8S_POD_NAMESPACE"), value_in_args(args, "K8S_POD_NAME")));
}

void set_outcome(ordered_json& line, const LogEntry& entry) {
  line["outcome"] = entry.error == nullptr ? "ok" : "error";
  if (entry.error != nullptr) {
    line["code"] = static_cast<unsigned>(entry.error->code());
    line["msg"] = cut(entry.error->what());
    set(line, "details", entry.error->details());
  }
  line["microseconds"] = entry.took.count();
  if (entry.record == nullptr) return;
  line["phases"] = ordered_json::object();
  for (const auto& [name, took] : entry.record->phases()) {
    line["phases"][std::string(name)] = std::chrono::duration_cast<microseconds>(took).count();
  }
  for (const std::string& note : entry.record->notes()) line["notes"].push_back(cut(note));
}

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// traceparent of W3C Trace Context (section 3.2), under the names that OpenTelemetry gives its
// parts in a log ("Trace Context in non-OTLP Log Formats"). Later versions may have more at the
// end.
void set_trace(ordered_json& line, std::string_view parent) {
  constexpr std::size_t kLength = 2 + 1 + 32 + 1 + 16 + 1 + 2;
  if (parent.size() < kLength) return;
  const auto version = parent.substr(0, 2);
  if (parent.size() > kLength && (version == "00" || parent[kLength] != '-')) return;
  const auto trace = parent.substr(3, 32);
  const auto span = parent.substr(36, 16);
  const auto flags = parent.substr(53, 2);
  const bool dashes = parent[2] == '-' && parent[35] == '-' && parent[52] == '-';
  const bool zero =
      trace.find_first_not_of('0') == trace.npos || span.find_first_not_of('0') == span.npos;
  if (!dashes || zero || version == "ff" || !is_hex(version, 2) || !is_hex(trace, 32) ||
      !is_hex(span, 16) || !is_hex(flags, 2)) {
    return;
  }
  line["trace_id"] = std::string(trace);
  line["span_id"] = std::string(span);
  line["trace_flags"] = std::string(flags);
}

// Does not block: a FIFO that nobody reads would stop the call.
netlink::Fd open_file(const std::string& place) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  if (!place.starts_with('/')) throw netlink::Error("it is no absolute path", EINVAL);
  netlink::Fd file(::open(place.c_str(), kFlags | O_CLOEXEC, 0600));
  if (!file) throw netlink::Error("open it", errno);
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) throw netlink::Error("look at it", errno);
  if (!S_ISREG(about.st_mode)) throw netlink::Error("it is no regular file", EINVAL);
  return file;
}

// Writes the line at once, so that lines of parallel processes do not mix.
void append(const std::string& place, const std::string& line) {
  const netlink::Fd file = place == "stderr" ? netlink::Fd() : open_file(place);
  const ssize_t written = ::write(file ? file.get() : STDERR_FILENO, line.data(), line.size());
  if (written < 0) throw netlink::Error("write to it", errno);
  if (static_cast<std::size_t>(written) < line.size()) throw netlink::Error("write to it", ENOSPC);
}

std::string_view text_or_nothing(const nlohmann::json& conf, const char* key) {
  if (!conf.is_object()) return {};
  const auto it = conf.find(key);
  return it != conf.end() && it->is_string() ? it->get_ref<const std::string&>()
                                             : std::string_view();
}

}  // namespace

const std::string* log_place(const Env& env) {
  const auto it = env.find(kLogVariable);
  return it == env.end() || it->second.empty() ? nullptr : &it->second;
}

ordered_json line_of(const LogEntry& entry) {
  ordered_json line;
  line["time"] = now_text();
  line["level"] = entry.error == nullptr ? "info" : "error";
  line["kind"] = entry.kind;
  set(line, "plugin", entry.plugin);
  set(line, "version", entry.version);
  set(line, "verb", lookup(entry.env, "CNI_COMMAND"));
  set(line, "cniVersion", entry.cni_version);
  set(line, "network", entry.network);
  set_attachment(line, entry.env);
  set_outcome(line, entry);
  line["pid"] = ::getpid();
  set_trace(line, lookup(entry.env, "TRACEPARENT"));
  return line;
}

void write_log(const std::string& place, const LogEntry& entry) noexcept try {
  append(place, line_of(entry).dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
} catch (const std::exception& e) {
  try {
    note(cat("log to '", place, "': ", e.what()));
  } catch (const std::bad_alloc&) {
    // The call goes on without.
  }
}

void Recording::write(const std::string& place, LogEntry entry) noexcept {
  entry.took = std::chrono::duration_cast<microseconds>(Phase::Clock::now() - start_);
  entry.record = &record_;
  write_log(place, entry);
}

CallLog::CallLog(const Plugin& plugin, const Env& env) noexcept
    : plugin_(plugin), place_(log_place(env)) {
  if (place_ != nullptr) recording_.keep();
}

void CallLog::has_read(const Request& request) noexcept try {
  if (place_ != nullptr) return;
  const auto wanted = text_or_nothing(request.conf, kLogKey);
  if (wanted.empty()) return;
  from_config_ = wanted;
  place_ = &from_config_;
  recording_.keep();
} catch (const std::bad_alloc&) {
  // The call goes on without.
}

void CallLog::finish(const Request& request, const Error* error) noexcept {
  if (place_ == nullptr) return;
  recording_.write(*place_, {.kind = "plugin",
                             .plugin = plugin_.name,
                             .env = request.env,
                             .version = version_of(plugin_),
                             .network = request.network,
                             .cni_version = text_or_nothing(request.conf, "cniVersion"),
                             .error = error});
}

}  // namespace cni

#include "cnitool/doctor/look_plugins.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "cnitool/validate/plugin_facts.h"
#include "libcni/plugin/log.h"
#include "libcni/runtime/plugin_call.h"

namespace tool::doctor {

namespace {

using cni::NetworkList;
using cni::PluginConf;
using cni::RuntimeOptions;

bool is_file(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
}

// Reads no more of the file than it has to.
bool mentions(const std::string& file, std::string_view text) {
  constexpr std::size_t kChunk = std::size_t{256} * 1024;
  std::ifstream in(file, std::ios::binary);
  std::string buffer;
  std::string chunk(kChunk, '\0');
  while (in) {
    in.read(chunk.data(), kChunk);
    buffer.append(chunk, 0, static_cast<std::size_t>(in.gcount()));
    if (buffer.find(text) != std::string::npos) return true;
    if (buffer.size() > text.size()) buffer.erase(0, buffer.size() - text.size());
  }
  return false;
}

// What a plugin of this project says of itself, found in its file: others are not run for it.
std::string patchbay_version(const std::string& file, const cni::Env& env) {
  constexpr std::string_view kMark = " plugin patchbay ";
  if (!mentions(file, kMark)) return {};
  const cni::Executable program{
      .file = file, .arguments = {"--version"}, .env = env, .own_group = true};
  const cni::Outcome outcome = cni::execute(program, "", std::chrono::seconds(2));
  const auto at = outcome.out.find(kMark);
  if (at == std::string::npos) return {};
  const auto start = at + kMark.size();
  return outcome.out.substr(start, outcome.out.find('\n', start) - start);
}

PluginFile program_of(const std::string& type, const RuntimeOptions& options) {
  PluginFile out{.type = type,
                 .file = {},
                 .later = {},
                 .similar = {},
                 .failure = {},
                 .versions = {},
                 .patchbay = {}};
  for (const std::string& dir : options.path) {
    const std::string file = cat(dir, "/", type);
    if (!is_file(file)) continue;
    if (out.file.empty())
      out.file = file;
    else
      out.later.push_back(file);
  }
  if (out.file.empty()) {
    std::string path;
    for (const std::string& dir : options.path) path += cat(path.empty() ? "" : ":", dir);
    out.similar = Plugins(path, options.env).similar(type);
    return out;
  }
  out.is_executable = ::access(out.file.c_str(), X_OK) == 0;
  if (!out.is_executable) return out;
  NetworkList list;
  list.name = "doctor";
  list.plugins.push_back({.type = type, .conf = nlohmann::json::object()});
  try {
    out.versions = cni::Runtime(options).versions(list).front().versions;
    out.patchbay = patchbay_version(out.file, options.env);
  } catch (const cni::Error& e) {
    out.failure = e.what();
  } catch (const netlink::Error& e) {
    out.failure = e.what();
  }
  return out;
}

bool knows_status(const std::vector<PluginFile>& programs, const std::string& type) {
  return std::any_of(programs.begin(), programs.end(), [&](const PluginFile& one) {
    const auto& versions = one.versions;
    return one.type == type &&
           std::find(versions.begin(), versions.end(), "1.1.0") != versions.end();
  });
}

// A line on the terminal where looking takes longer than people like to wait.
class Progress {
 public:
  explicit Progress(std::size_t all) : all_(all) {}
  ~Progress() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void step() {
    const std::scoped_lock lock(mutex_);
    ++done_;
    if (!terminal_ || Clock::now() - start_ < std::chrono::seconds(2)) return;
    shown_ = true;
    std::fprintf(stderr, "\rdoctor: %zu of %zu attachments", done_, all_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  const std::size_t all_;
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::size_t done_ = 0;
  bool shown_ = false;
};

}  // namespace

std::vector<Repaired> looks_of(const Node& node, const RuntimeOptions& options) {
  constexpr std::time_t kLongestAdd = 600;  // seconds; no runtime waits longer
  auto all = cni::Cache(node.cache_dir).list().attachments;
  std::erase_if(all, [&](const cni::CachedAttachment& one) {
    const bool runs = std::any_of(node.attachments.begin(), node.attachments.end(), [&](auto& it) {
      return it.key == one.key && it.is_running == true;
    });
    return one.result->is_null() && (runs || node.now - one.modified <= kLongestAdd);
  });
  const cni::Runtime runtime(options);
  std::vector<Repaired> out(all.size());
  std::atomic<std::size_t> next = 0;
  Progress progress(all.size());
  const auto work = [&] {
    for (std::size_t i = next++; i < all.size(); i = next++) {
      out[i] = repair_one(all[i], runtime, /*dry_run=*/true);
      progress.step();
    }
  };
  std::vector<std::jthread> others;
  const auto workers = std::min<std::size_t>(std::thread::hardware_concurrency(), all.size());
  for (std::size_t i = 1; i < workers; ++i) others.emplace_back(work);
  work();
  others.clear();
  return out;
}

std::vector<PluginFile> programs_of(const cni::Networks& networks, const RuntimeOptions& options) {
  std::vector<PluginFile> out;
  const auto add = [&](const std::string& type) {
    const bool known = std::any_of(out.begin(), out.end(),
                                   [&](const PluginFile& one) { return one.type == type; });
    if (!known && !type.empty() && type.find('/') == std::string::npos) {
      out.push_back(program_of(type, options));
    }
  };
  for (const NetworkList& list : networks.lists) {
    for (const PluginConf& plugin : list.plugins) {
      add(plugin.type);
      add(ipam_type_of(plugin));
    }
  }
  return out;
}

std::vector<Complaint> complaints_of(const cni::Networks& networks,
                                     const std::vector<PluginFile>& programs,
                                     RuntimeOptions options) {
  options.pass_stderr = false;  // what STATUS notes is a finding of another check
  std::vector<Complaint> out;
  for (const NetworkList& list : networks.lists) {
    for (PluginConf plugin : list.plugins) {
      const std::string ipam = ipam_type_of(plugin);
      if (!knows_status(programs, plugin.type)) continue;
      if (!ipam.empty() && !knows_status(programs, ipam)) continue;
      plugin.conf->erase(cni::kLogKey);  // what is looked at is not written to
      NetworkList one = list;
      one.version = "1.1.0";
      try {
        cni::PluginCaller(options, one).call(plugin, {.command = cni::Command::kStatus});
      } catch (const cni::Error& e) {
        out.push_back({list.name, plugin.type, e});
      }
    }
  }
  return out;
}

std::vector<NetworkLeftover> all_leftovers(const Node& node, const RuntimeOptions& options) {
  std::vector<NetworkLeftover> out;
  std::set<std::string> seen;
  for (const NetworkList& list : node.networks.lists) {
    if (!seen.insert(list.name).second) continue;
    for (auto& one : leftovers_of(list, {}, options)) out.push_back({list.name, std::move(one)});
  }
  return out;
}

}  // namespace tool::doctor

#include "cnitool/processes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/common/split.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace tool {

namespace {

using cni::cat;

std::string text_of(const std::string& path) {
  try {
    return netlink::read_file(path).value_or("");
  } catch (const netlink::Error&) {  // it ends meanwhile
    return "";
  }
}

std::string target_of(const std::string& link) {
  std::error_code ignored;
  return std::filesystem::read_symlink(link, ignored).string();
}

std::string executable_of(const std::string& process) {
  constexpr std::string_view kDeleted = " (deleted)";  // an update that did not restart it
  std::string file = target_of(cat(process, "/exe"));
  if (file.ends_with(kDeleted)) file.erase(file.size() - kDeleted.size());
  return file;
}

long number_in(std::string_view text) {
  long out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

std::time_t boot_time() {
  constexpr std::string_view kKey = "\nbtime ";
  const std::string stat = text_of("/proc/stat");
  const auto at = stat.find(kKey);
  return at == stat.npos ? 0 : number_in(std::string_view(stat).substr(at + kKey.size()));
}

// Field 22 of proc_pid_stat(5); the second is in parentheses.
std::time_t start_time(const std::string& process) {
  constexpr std::size_t kField = 19;
  const std::string stat = text_of(cat(process, "/stat"));
  const auto end = stat.rfind(") ");
  if (end == stat.npos) return 0;
  const auto fields = cni::split(std::string_view(stat).substr(end + 2), " ");
  if (fields.size() <= kField) return 0;
  return boot_time() + number_in(fields[kField]) / ::sysconf(_SC_CLK_TCK);
}

// A pod may have a process of any name.
bool is_of_node(const std::string& process) {
  struct stat about {};
  return ::stat(process.c_str(), &about) == 0 && about.st_uid == 0 &&
         target_of(cat(process, "/ns/pid")) == target_of("/proc/self/ns/pid");
}

}  // namespace

std::string Process::option(const std::string& wanted) const {
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (!word.starts_with('-')) continue;
    word.remove_prefix(word.starts_with("--") ? 2 : 1);
    if (word == wanted && i + 1 < words.size()) return words[i + 1];
    if (word.starts_with(wanted + "=")) return std::string(word.substr(wanted.size() + 1));
  }
  return {};
}

std::vector<Process> processes(
    const std::function<bool(const std::string& name, const std::string& executable)>& wanted) {
  std::vector<Process> out;
  const std::string own = target_of("/proc/self/ns/net");
  for (const std::string& id : cni::names_in("/proc")) {
    if (id.find_first_not_of("0123456789") != id.npos) continue;
    const std::string path = cat("/proc/", id);
    std::string name = text_of(cat(path, "/comm"));
    if (name.ends_with('\n')) name.pop_back();
    std::string executable = executable_of(path);
    if (!wanted(name, executable) || target_of(cat(path, "/ns/net")) != own) continue;
    Process one{.path = path,
                .name = std::move(name),
                .executable = std::move(executable),
                .words = {},
                .started = start_time(path),
                .is_of_node = is_of_node(path)};
    const std::string line = text_of(cat(path, "/cmdline"));
    for (const auto word : cni::split(line, std::string_view("\0", 1))) {
      one.words.emplace_back(word);
    }
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace tool

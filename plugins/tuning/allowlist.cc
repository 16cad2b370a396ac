#include "plugins/tuning/allowlist.h"

#include <regex.h>

#include <algorithm>
#include <cstring>
#include <list>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/common/split.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace tuning {

namespace {

using cni::cat;
using cni::Code;

constexpr const char* kAllowlistDir = "/etc/cni/tuning";
constexpr const char* kAllowlistName = "allowlist.conf";

std::string trimmed(const std::string& line) {
  const auto first = line.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (const auto line : cni::split(text, "\n")) {
    if (std::string words = trimmed(std::string(line)); !words.empty()) {
      out.push_back(std::move(words));
    }
  }
  return out;
}

[[noreturn]] void complain(const std::string& line, const std::string& why) {
  throw cni::Error(Code::kInternal, cat(kAllowlist, ": error parsing regexp: \"", line, "\""), why);
}

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// A pattern must not allow more here than in RE2 of the reference, which regex(7) differs from.
bool differs_from_re2(const std::string& line) {
  bool in_brackets = false;
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    const char next = line[i + 1];
    if (line[i] == '\\') {
      if (is_alphanumeric(next) && (in_brackets || std::strchr("bBsSwW", next) == nullptr)) {
        return true;
      }
      ++i;
    } else if (line[i] == '[') {
      in_brackets = true;
    } else if (line[i] == ']') {
      in_brackets = false;
    } else if (!in_brackets && next == '?' && std::strchr("(*+?}", line[i]) != nullptr) {
      return true;
    }
  }
  return false;
}

// An extended regular expression, regex(7).
class Regex {
 public:
  explicit Regex(const std::string& line) {
    if (differs_from_re2(line)) {
      complain(line, "expected an extended regular expression, as of regex(7): [0-9] for \\d");
    }
    const int error = ::regcomp(&regex_, line.c_str(), REG_EXTENDED | REG_NOSUB);
    if (error == 0) return;
    char why[128];
    ::regerror(error, &regex_, why, sizeof why);
    complain(line, why);
  }
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;
  ~Regex() { ::regfree(&regex_); }

  bool finds(const std::string& text) const {
    return ::regexec(&regex_, text.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  regex_t regex_;
};

std::string listed(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += cat(out.empty() ? "" : " ", line);
  return out;
}

}  // namespace

void require_allowed_by(const std::string& text, const std::vector<Sysctl>& sysctls) {
  const auto lines = lines_of(text);
  std::list<Regex> allowed;
  for (const std::string& line : lines) allowed.emplace_back(line);
  for (const Sysctl& one : sysctls) {
    const bool is_allowed =
        std::ranges::any_of(allowed, [&](const Regex& regex) { return regex.finds(one.key); });
    if (is_allowed) continue;
    throw cni::Error(Code::kInternal,
                     cat("Sysctl ", one.key,
                         " is not allowed. Only the following sysctls are "
                         "allowed: [",
                         listed(lines), "]"),
                     cat("the node's operator lists them in ", kAllowlist));
  }
}

void require_allowed(const std::vector<Sysctl>& sysctls) {
  if (sysctls.empty()) return;
  std::optional<std::string> text;
  try {
    text = netlink::read_regular_file(kAllowlist);
  } catch (const netlink::Error& e) {
    throw cni::Error(Code::kInternal, cat("the allowlist of sysctls cannot be read: ", e.what()),
                     cat("without ", kAllowlist, " all sysctls of a pod are allowed"));
  }
  if (text) return require_allowed_by(*text, sysctls);
  const auto dir = cni::Dir::open(kAllowlistDir);
  if (!dir || !dir->read_link(kAllowlistName)) return;
  throw cni::Error(Code::kInternal, "the allowlist of sysctls cannot be read: no such file",
                   cat(kAllowlist, " is a symbolic link to a file that does not exist"));
}

}  // namespace tuning

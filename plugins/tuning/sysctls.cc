#include "plugins/tuning/sysctls.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/split.h"

namespace tuning {

namespace {

using cni::cat;
using cni::split;

constexpr std::string_view kNet = "net/";
constexpr std::string_view kIfname = "IFNAME";

std::string with_ifname(std::string path, const std::string& ifname) {
  if (const auto at = path.find(kIfname); at != std::string::npos) {
    path.replace(at, kIfname.size(), ifname);
  }
  return path;
}

std::string as_sysctl_8(std::string key) {
  const auto first = key.find_first_of("./");
  if (first == std::string::npos || key[first] == '/') return key;
  for (char& c : key) {
    if (c == '.') {
      c = '/';
    } else if (c == '/') {
      c = '.';
    }
  }
  return key;
}

std::string as_reference(std::string key) {
  std::ranges::replace(key, '.', '/');
  return key;
}

bool is_below_net(const std::string& path) {
  if (!path.starts_with(kNet) || path.size() == kNet.size()) return false;
  const std::string slashed = cat("/", path, "/");
  return slashed.find("//") == std::string::npos && slashed.find("/./") == std::string::npos &&
         slashed.find("/../") == std::string::npos;
}

// Reads numbers as the kernel does: decimal, 0x for hexadecimal, 0 for octal (proc_dointvec()).
std::optional<long long> number_of(std::string_view text) {
  const std::string whole(text);
  char* end = nullptr;
  errno = 0;
  const long long out = std::strtoll(whole.c_str(), &end, 0);
  if (whole.empty() || *end != '\0' || errno != 0) return std::nullopt;
  return out;
}

bool same_word(std::string_view one, std::string_view other) {
  if (one == other) return true;
  const auto a = number_of(one), b = number_of(other);
  return a && a == b;
}

using Range = std::pair<unsigned, unsigned>;

std::optional<unsigned> port_of(std::string_view text) {
  unsigned out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

std::optional<Range> range_of(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = port_of(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : port_of(text.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return Range{*first, *last};
}

// "1,2,5-7" as ranges in order that do not touch; nothing for other texts.
std::optional<std::vector<Range>> ranges_of(std::string_view text) {
  std::vector<Range> all;
  for (const std::string_view word : split(text, ", \t\n")) {
    const auto range = range_of(word);
    if (!range) return std::nullopt;
    all.push_back(*range);
  }
  std::ranges::sort(all);
  std::vector<Range> out;
  for (const Range& one : all) {
    if (!out.empty() && one.first <= out.back().second + 1) {
      out.back().second = std::max(out.back().second, one.second);
    } else {
      out.push_back(one);
    }
  }
  return out;
}

bool is_list_of_ranges(const std::string& text) {
  return text.find(',') != std::string::npos || text.find('-', 1) != std::string::npos;
}

}  // namespace

std::string complaint_about(const std::string& key) {
  const bool is_printable = std::ranges::all_of(key, [](char c) { return c > ' ' && c < '\x7f'; });
  if (!is_printable) return "expected a key without blanks and control characters";
  if (key.find('+') != std::string::npos) return "expected a key without \"+\"";
  if (!is_below_net(as_sysctl_8(key)) || !is_below_net(as_reference(key))) {
    return "expected a setting below net, for example net.ipv4.conf.IFNAME.arp_filter";
  }
  return "";
}

std::vector<std::string> paths_of(const std::string& key, const std::string& ifname) {
  std::vector<std::string> out;
  for (const std::string& path : {as_sysctl_8(key), as_reference(key)}) {
    std::string whole = with_ifname(path.substr(kNet.size()), ifname);
    if (out.empty() || out.front() != whole) out.push_back(std::move(whole));
  }
  return out;
}

std::vector<Sysctl> resolve(const netlink::NetSysctls& net, const std::vector<Sysctl>& sysctls,
                            const std::string& ifname) {
  std::vector<Sysctl> out;
  for (const Sysctl& one : sysctls) {
    const auto paths = paths_of(one.key, ifname);
    const auto found = std::ranges::find_if(paths, [&](const auto& path) { return net.has(path); });
    if (found == paths.end()) {
      throw cni::Error(
          cni::Code::kInternal,
          cat("open /proc/sys/net/", paths.front(), ": no such file or directory"),
          cat("sysctl[\"", one.key, "\"]: the pod's network namespace has no such setting"));
    }
    out.push_back({*found, one.value});
  }
  return out;
}

bool same_value(const std::string& one, const std::string& other) {
  const auto a = split(one, " \t\n"), b = split(other, " \t\n");
  if (std::equal(a.begin(), a.end(), b.begin(), b.end(), same_word)) return true;
  if (!is_list_of_ranges(one) && !is_list_of_ranges(other)) return false;
  const auto ranges = ranges_of(one);
  return ranges && ranges == ranges_of(other);
}

}  // namespace tuning

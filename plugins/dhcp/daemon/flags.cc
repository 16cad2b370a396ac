#include "plugins/dhcp/daemon/flags.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "libcni/common/error.h"

namespace dhcp {

namespace {

using cni::cat;

struct Unit {
  std::string_view name;
  double milliseconds;
};
constexpr Unit kUnits[] = {{"ms", 1}, {"s", 1e3}, {"m", 6e4}, {"h", 3.6e6}};

// "NAME", and the value where it came with it.
std::pair<std::string, std::optional<std::string>> split(std::string_view argument) {
  const std::string_view whole = argument;
  argument.remove_prefix(argument.starts_with("--") ? 2 : 1);
  const auto equals = argument.find('=');
  if (!whole.starts_with('-') || argument.empty() || equals == 0) {
    throw std::invalid_argument(cat("unexpected argument '", whole, "'"));
  }
  if (equals == std::string_view::npos) return {std::string(argument), std::nullopt};
  return {std::string(argument.substr(0, equals)), std::string(argument.substr(equals + 1))};
}

Time duration(const std::string& text) {
  const auto out = parse_duration(text);
  if (!out || *out <= Time(0)) throw std::invalid_argument("expected a duration such as 10s");
  return *out;
}

std::string absolute(const std::string& path) {
  if (path.empty() || path.starts_with('/')) return path;
  throw std::invalid_argument("path not absolute");
}

std::string help_of(const char* command, const std::vector<Flag>& flags) {
  std::string out = cat("Usage of ", command, ":\n");
  for (const Flag& flag : flags) {
    out += cat("  -", flag.name, *flag.type == '\0' ? "" : " ", flag.type, "\n        ",
               flag.description, "\n");
  }
  return out;
}

}  // namespace

bool boolean(const std::string& text) {
  for (const char* yes : {"1", "t", "T", "true", "TRUE", "True"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (text == no) return false;
  }
  throw std::invalid_argument("expected true or false");
}

std::optional<Time> parse_duration(std::string_view text) {
  constexpr double kMax = 1e12;  // milliseconds: 30 years
  if (text == "0") return Time(0);
  double total = 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    const auto end = text.find_first_not_of("0123456789.");
    if (end == 0 || end == std::string_view::npos) return std::nullopt;
    char* stop = nullptr;
    const std::string number(text.substr(0, end));
    const double value = std::strtod(number.c_str(), &stop);
    if (stop != number.c_str() + number.size()) return std::nullopt;
    text.remove_prefix(end);
    const auto unit_end = std::min(text.find_first_of("0123456789."), text.size());
    const std::string_view unit = text.substr(0, unit_end);
    text.remove_prefix(unit_end);
    const auto known = std::find_if(std::begin(kUnits), std::end(kUnits),
                                    [&](const Unit& one) { return one.name == unit; });
    if (known == std::end(kUnits)) return std::nullopt;
    total += value * known->milliseconds;
    if (total > kMax) return std::nullopt;
  }
  return Time(std::llround(total));
}

std::optional<std::string> read_flags(const char* command, const std::vector<Flag>& flags,
                                      std::span<const char* const> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto [name, value] = split(arguments[i]);
    if (name == "h" || name == "help") return help_of(command, flags);
    auto flag = flags.begin();
    while (flag != flags.end() && flag->name != name) ++flag;
    if (flag == flags.end()) {
      throw std::invalid_argument(cat("flag provided but not defined: -", name));
    }
    if (!value && *flag->type == '\0') value = "true";
    if (!value && ++i == arguments.size()) {
      throw std::invalid_argument(cat("flag needs an argument: -", name));
    }
    if (!value) value = arguments[i];
    try {
      flag->set(*value);
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument(
          cat("invalid value \"", *value, "\" for flag -", name, ": ", e.what()));
    }
  }
  return std::nullopt;
}

Flags Flags::parse(std::span<const char* const> arguments) {
  Flags out;
  const std::vector<Flag> table{
      {"broadcast", "", "ask servers to broadcast their answers",
       [&](const auto& text) { out.broadcast = boolean(text); }},
      {"hostprefix", "string",
       "prefix of all paths on the host: socket, leases, network namespaces",
       [&](const auto& text) { out.host_prefix = text; }},
      {"pidfile", "string", "absolute path to write the PID to",
       [&](const auto& text) { out.pid_file = absolute(text); }},
      {"resendmax", "duration", "longest time between two messages without answer (default 62s)",
       [&](const auto& text) { out.timing.most = duration(text); }},
      {"resendtimeout", "duration",
       "longest time that an ADD takes, besides the config's timeout (default 3m28s)",
       [&](const auto& text) { out.resend_timeout = duration(text); }},
      {"socketpath", "string", "socket of the daemon (default /run/cni/dhcp.sock)",
       [&](const auto& text) { out.socket_path = text.empty() ? names::kDhcpSocket : text; }},
      {"statedir", "string", "directory of the leases (default /run/cni/dhcp)",
       [&](const auto& text) { out.state_dir = text; }},
      {"timeout", "duration",
       "first time to wait for an answer, which doubles each time (default 4s)",
       [&](const auto& text) { out.timing.first = duration(text); }}};
  out.help = read_flags("dhcp daemon", table, arguments);
  out.timing.most = std::max(out.timing.most, out.timing.first);
  return out;
}

}  // namespace dhcp

#include "plugins/dhcp/daemon/flags.h"

#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "libcni/common/error.h"

namespace dhcp {

namespace {

using cni::cat;

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

Time duration(const std::string& flag, const std::string& text) {
  const auto out = parse_duration(text);
  if (!out || *out <= Time(0)) {
    throw std::invalid_argument(
        cat("invalid value \"", text, "\" for flag -", flag, ": expected a duration such as 10s"));
  }
  return *out;
}

bool boolean(const std::string& flag, const std::string& text) {
  for (const char* yes : {"1", "t", "T", "true", "TRUE", "True"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (text == no) return false;
  }
  throw std::invalid_argument(cat("invalid boolean value \"", text, "\" for -", flag));
}

std::string absolute(std::string path) {
  if (path.starts_with('/')) return path;
  throw std::invalid_argument(cat("Error writing pidfile \"", path, "\": path not absolute"));
}

void set(Flags& flags, const std::string& name, const std::string& value) {
  if (name == "pidfile") {
    flags.pid_file = value.empty() ? value : absolute(value);
  } else if (name == "hostprefix") {
    flags.host_prefix = value;
  } else if (name == "socketpath") {
    flags.socket_path = value.empty() ? kSocketPath : value;
  } else if (name == "statedir") {
    flags.state_dir = value;
  } else if (name == "timeout") {
    flags.timing.first = duration(name, value);
  } else if (name == "resendmax") {
    flags.timing.most = duration(name, value);
  } else if (name == "resendtimeout") {
    flags.resend_timeout = duration(name, value);
  } else {
    throw std::invalid_argument(cat("flag provided but not defined: -", name));
  }
}

}  // namespace

std::optional<Time> parse_duration(std::string_view text) {
  constexpr double kMost = 1e12;  // milliseconds: 30 years
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
    const double factor = unit == "ms"  ? 1
                          : unit == "s" ? 1e3
                          : unit == "m" ? 6e4
                          : unit == "h" ? 3.6e6
                                        : 0;
    if (factor == 0) return std::nullopt;
    total += value * factor;
    if (total > kMost) return std::nullopt;
  }
  return Time(std::llround(total));
}

Flags Flags::parse(std::span<const char* const> arguments) {
  Flags out;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto [name, value] = split(arguments[i]);
    if (name == "h" || name == "help") {
      out.help = true;
    } else if (name == "broadcast") {
      out.broadcast = !value || boolean(name, *value);
    } else {
      if (!value) {
        if (++i == arguments.size()) {
          throw std::invalid_argument(cat("flag needs an argument: -", name));
        }
        value = arguments[i];
      }
      set(out, name, *value);
    }
  }
  out.timing.most = std::max(out.timing.most, out.timing.first);
  return out;
}

std::string flags_help() {
  return "Usage of dhcp daemon:\n"
         "  -broadcast\n"
         "        ask servers to broadcast their answers\n"
         "  -hostprefix string\n"
         "        prefix of all paths on the host: socket, leases, network namespaces\n"
         "  -pidfile string\n"
         "        absolute path to write the PID to\n"
         "  -resendmax duration\n"
         "        longest time between two messages without answer (default 62s)\n"
         "  -resendtimeout duration\n"
         "        longest time that an ADD takes, besides the config's timeout (default 3m28s)\n"
         "  -socketpath string\n"
         "        socket of the daemon (default /run/cni/dhcp.sock)\n"
         "  -statedir string\n"
         "        directory of the leases (default /run/cni/dhcp)\n"
         "  -timeout duration\n"
         "        first time to wait for an answer, which doubles each time (default 4s)\n";
}

}  // namespace dhcp

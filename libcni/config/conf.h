#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/attachment.h"
#include "libcni/common/error.h"
#include "libcni/config/result.h"

namespace cni {

/// A place in a JSON document that a user wrote. Complaints carry the place, the value and what was
/// expected: "ipam.ranges[0][1].subnet: not a network in CIDR notation: \"10.1\"".
/// Keys match exactly, else without regard to case (Go's encoding/json does, and runtimes and
/// podman's "RuntimeConfig"/"HostPort" rely on it). null is absent.
class Reader {
 public:
  /// The root of doc; doc must outlive the Reader. code is what complaints carry.
  explicit Reader(const nlohmann::json& doc, Code code = Code::kInvalidConfig, std::string at = {});

  /// The value of a key; an absent Reader where there is none. key must outlive the Reader.
  /// \throws Error where this place holds something other than an object.
  Reader operator[](const char* key) const;
  /// Whether the key is there, even as null. \throws Error where this place holds no object.
  bool has(const char* key) const;
  /// The elements of a list; none where absent. \throws Error where it is not a list.
  std::vector<Reader> elements() const;

  bool present() const { return value_ != nullptr; }
  /// "ipam.ranges[0][1].subnet"; empty at the root.
  std::string path() const;
  /// The value. Only where present().
  const nlohmann::json& json() const { return *value_; }

  /// Reads a value that must be present. \throws Error.
  bool as_bool() const;
  std::string as_string() const;
  /// An integer in [least, most]; fractions and exponents are refused.
  std::int64_t as_int(std::int64_t least, std::int64_t most) const;
  Ip as_ip() const;
  Cidr as_cidr() const;
  std::vector<std::string> as_strings() const;

  /// Reads the value of a key into field; an absent key leaves field as it is.
  void into(const char* key, bool& field) const;
  void into(const char* key, std::string& field) const;
  void into(const char* key, std::vector<std::string>& field) const;
  /// An empty string is absent, as in the reference.
  void into(const char* key, std::optional<Ip>& field) const;
  void into(const char* key, std::optional<Cidr>& field) const;
  template <class Int>
  void into(const char* key, Int& field, std::int64_t least, std::int64_t most) const {
    if (const Reader value = (*this)[key]; value.present()) {
      field = static_cast<Int>(value.as_int(least, most));
    }
  }

  /// Complains about this place: "path: complaint: value". \throws Error, always.
  [[noreturn]] void fail(std::string_view complaint) const;

  /// The same with a sentence of the reference plugins, which programs compare: it is the message,
  /// whole, and the details are "path: expected: value". \throws Error, always.
  [[noreturn]] void refuse(const std::string& sentence, std::string_view expected = {}) const;

 private:
  /// A key, or without one an element of a list.
  struct Step {
    const char* key = nullptr;
    std::size_t index = 0;
  };
  Reader at(const nlohmann::json* value, Step step) const;
  std::string complaint(std::string_view text) const;
  [[noreturn]] void fail_mistyped(std::string_view expected) const;

  const nlohmann::json* value_ = nullptr;
  Code code_;
  /// The way here, which only complaints put into words: at_, then steps_.
  std::string at_;
  std::array<Step, 4> steps_{};
  std::size_t depth_ = 0;
};

/// The value as JSON, as complaints quote it: cut off where it is long.
std::string shortened(const nlohmann::json& value);

/// "dns": nameservers, domain, search, options. An absent place gives an empty Dns.
Dns dns_from(const Reader& place);
/// Whether a route's gateway must be of the address family of its destination. In a config anything
/// else is a slip; a result may tell of IPv4 by way of IPv6 (RFC 5549), which others set up.
enum class GatewayFamily { kOfDestination, kAny };

/// A list of routes {dst, gw, mtu, advmss, priority, table, scope}.
std::vector<Route> routes_from(const Reader& place,
                               GatewayFamily family = GatewayFamily::kOfDestination);

}  // namespace cni

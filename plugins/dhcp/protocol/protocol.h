#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "libcni/config/result.h"
#include "plugins/dhcp/protocol/gob.h"

/// The protocol of plugin and daemon is that of the reference plugins (Go's net/rpc over HTTP on a
/// socket of unix(7)), so that each works with the other's. Some more methods are ours; their
/// daemon answers them with kUnknownMethod.
namespace dhcp {

inline constexpr std::string_view kHello = "CONNECT /_goRPC_ HTTP/1.0\n\n";
inline constexpr std::string_view kWelcome = "HTTP/1.0 200 Connected to Go RPC\n\n";
inline constexpr std::string_view kUnknownMethod = "rpc: can't find ";

namespace method {
inline constexpr std::string_view kAllocate = "DHCP.Allocate", kRelease = "DHCP.Release";
/// Ours: whether there is a lease; release what is not in the list; all leases, as JSON.
inline constexpr std::string_view kCheck = "Patchbay.Check", kCollect = "Patchbay.Collect",
                                  kLeases = "Patchbay.Leases";
}  // namespace method

/// A call; the members after sequence are those of the reference's CmdArgs.
struct Call {
  std::string method;
  std::uint64_t sequence = 0;
  std::string container_id = {}, netns = {}, ifname = {}, args = {}, path = {}, input = {};
  bool operator==(const Call&) const = default;
};

/// Encodes the call as the first one of a connection.
std::string encode(const Call& call);
/// From its header and its body.
Call call_from(const gob::Value& header, const gob::Value& body);

/// The answers to the calls of one connection, which must define a type only once.
class AnswerEncoder {
 public:
  std::string result(const Call& call, const cni::Result& result);
  std::string text(const Call& call, std::string_view text);
  std::string nothing(const Call& call);
  std::string error(const Call& call, std::string_view error);

 private:
  /// Definitions of types that were not sent yet, and a value of the first one of them.
  std::string value(std::int64_t type, const std::string& definitions, std::string_view body);
  std::string header(const Call& call, std::string_view error);

  std::set<std::int64_t> defined_;
};

/// The body of an answer as a result: addresses, routes and DNS. \throws
/// cni::Error(kDecodingFailure).
cni::Result result_from(const gob::Value& body);

}  // namespace dhcp

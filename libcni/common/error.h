#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "netlink/types/error.h"
#include "netlink/types/hints.h"

namespace cni {

using netlink::cat;

/// Codes of CNI 1.1, section "Error". 8 and 999 are the Go library's; 100 and up are the plugin's.
enum class Code : unsigned {
  kIncompatibleVersion = 1,
  kUnsupportedField = 2,
  kUnknownContainer = 3,
  kInvalidEnvironment = 4,
  kIoFailure = 5,
  kDecodingFailure = 6,
  kInvalidConfig = 7,
  kInvalidNetNs = 8,
  kTryAgainLater = 11,
  kPluginUnavailable = 50,
  kLimitedConnectivity = 51,
  kInternal = 999,
};

/// The one failure a verb may end in; becomes the error object on stdout.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& msg, std::string details = {})
      : std::runtime_error(msg), code_(code), details_(std::move(details)) {}

  /// The error for a config's value whose JSON type is not its key's.
  static Error mistyped(Code code, const std::string& msg) {
    Error out(code, msg);
    out.is_mistyped_ = true;
    return out;
  }

  Code code() const noexcept { return code_; }
  const std::string& details() const noexcept { return details_; }
  bool is_mistyped() const noexcept { return is_mistyped_; }

 private:
  Code code_;
  std::string details_;
  bool is_mistyped_ = false;
};

/// The spec's code for a kernel's refusal. The runtime tries again after EAGAIN (others keep
/// changing what is read or committed) and after a timeout.
inline Code code_of(const netlink::Error& e) noexcept {
  return e.error() == EAGAIN || e.error() == ETIMEDOUT ? Code::kTryAgainLater : Code::kInternal;
}

/// A kernel's refusal as the error of a verb: the message ends with the text of its errno, as the
/// reference plugins' do, and the kernel's own sentence (NETLINK_EXT_ACK) and hints are details.
inline Error error_of(const netlink::Error& e, std::string_view hint = {}) {
  std::string details = e.kernel_text().empty() ? "" : cat("kernel: ", e.kernel_text());
  for (const std::string_view more : {hint, netlink::limit_hint(e.error())}) {
    if (!more.empty()) details += cat(details.empty() ? "" : "; ", more);
  }
  return {code_of(e), e.sentence(), std::move(details)};
}

/// The boundary of plugin, suite and runtime: whatever leaves fn is an Error.
template <class Fn>
std::invoke_result_t<Fn> as_error(Fn&& fn) {
  try {
    return std::forward<Fn>(fn)();
  } catch (const Error&) {
    throw;
  } catch (const netlink::Error& e) {
    throw error_of(e);
  } catch (const std::exception& e) {  // bad_alloc, what a library throws
    throw Error(Code::kInternal, e.what());
  }
}

/// Runs fn; an error that leaves it gets "what: " in front of its message and keeps type and code.
template <class Fn>
std::invoke_result_t<Fn> during(const std::string& what, Fn&& fn) {
  try {
    return std::forward<Fn>(fn)();
  } catch (const Error& e) {
    throw Error(e.code(), cat(what, ": ", e.what()), e.details());
  } catch (const netlink::Error& e) {
    throw netlink::Error(cat(what, ": ", e.operation()), e.error(), e.kernel_text());
  }
}

/// A kernel's refusal as the reference plugins' sentence, to which the text of the errno belongs;
/// what was tried is in the details.
inline netlink::Error in_words(const std::string& sentence, const netlink::Error& e) {
  const std::string& said = e.kernel_text();
  return {sentence, e.error(), said.empty() ? e.operation() : cat(e.operation(), ": ", said)};
}

}  // namespace cni

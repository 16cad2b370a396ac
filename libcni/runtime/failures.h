#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcni/common/error.h"

namespace cni {

/// Goes on past failures. One is thrown as it is, several as one with the first one's code.
class Failures {
 public:
  /// False where the step failed.
  template <class Fn>
  bool operator()(Fn&& step) {
    try {
      as_error(std::forward<Fn>(step));
      return true;
    } catch (const Error& e) {
      all_.push_back(e);
      return false;
    }
  }
  void finish() const {
    if (const auto failed = error()) throw *failed;
  }
  /// What finish() throws. Empty: nothing failed.
  std::optional<Error> error() const {
    if (all_.empty()) return std::nullopt;
    if (all_.size() == 1) return all_.front();
    std::string text;
    for (const Error& e : all_) {
      text += cat(text.empty() ? "" : "; ", e.what(), e.details().empty() ? "" : "; ", e.details());
    }
    return Error(all_.front().code(), text);
  }

 private:
  std::vector<Error> all_;
};

}  // namespace cni

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libcni/common/error.h"

namespace cni {

/// Goes on past failures. One is thrown as it is, several as one with the first one's code.
class Failures {
 public:
  template <class Fn>
  void operator()(Fn&& step) {
    try {
      as_error(std::forward<Fn>(step));
    } catch (const Error& e) {
      all_.push_back(e);
    }
  }
  void finish() const {
    if (all_.empty()) return;
    if (all_.size() == 1) throw all_.front();
    std::string text;
    for (const Error& e : all_) {
      text += cat(text.empty() ? "" : "; ", e.what(), e.details().empty() ? "" : "; ", e.details());
    }
    throw Error(all_.front().code(), text);
  }

 private:
  std::vector<Error> all_;
};

}  // namespace cni

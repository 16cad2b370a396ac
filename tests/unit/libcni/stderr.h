#pragma once

#include <unistd.h>

#include <string>

#include "tests/unit/surroundings.h"

/// While it lives, what is written to stderr is kept instead.
class StderrKept {
 public:
  StderrKept() { ::dup2(file_.get(), STDERR_FILENO); }
  StderrKept(const StderrKept&) = delete;
  StderrKept& operator=(const StderrKept&) = delete;
  ~StderrKept() { ::dup2(before_.get(), STDERR_FILENO); }
  std::string text() const { return surroundings::content_of(file_); }

 private:
  netlink::Fd before_{::dup(STDERR_FILENO)};
  netlink::Fd file_ = surroundings::file_with("");
};

#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace kubernetes {

/// Lines of a stream that comes in pieces.
class Lines {
 public:
  using OnLine = std::function<void(std::string_view line)>;
  /// \param most bytes of a line
  Lines(std::size_t most, OnLine on_line) : most_(most), on_line_(std::move(on_line)) {}

  /// Calls back for each line that ends in the piece, without its line break; empty ones are none.
  /// \throws ApiError for one that is too long.
  void take(std::string_view piece);
  /// Bytes of a line that has not ended.
  std::size_t rest() const { return rest_.size(); }

 private:
  void append(std::string_view piece);

  const std::size_t most_;
  const OnLine on_line_;
  std::string rest_;
};

}  // namespace kubernetes

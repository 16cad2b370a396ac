#include "kubernetes/lines.h"

#include "kubernetes/error.h"
#include "libcni/common/error.h"

namespace kubernetes {

void Lines::take(std::string_view piece) {
  for (auto end = piece.find('\n'); end != piece.npos; end = piece.find('\n')) {
    append(piece.substr(0, end));
    piece.remove_prefix(end + 1);
    const std::string line = std::exchange(rest_, {});
    if (!line.empty()) on_line_(line);
  }
  append(piece);
}

void Lines::append(std::string_view piece) {
  if (rest_.size() + piece.size() > most_) {
    throw ApiError(cni::cat("read lines: one has more than ", most_, " bytes"), {});
  }
  rest_ += piece;
}

}  // namespace kubernetes

#include "libcni/config/nearest.h"

#include <algorithm>
#include <cctype>

namespace cni {

namespace {

// Insertions, deletions, replacements and swapped neighbours (optimal string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t k = 0; k <= b.size(); ++k) {
      if (i == 0 || k == 0) {
        d[i][k] = i + k;
        continue;
      }
      const std::size_t replaced = d[i - 1][k - 1] + (a[i - 1] == b[k - 1] ? 0 : 1);
      d[i][k] = std::min({d[i - 1][k] + 1, d[i][k - 1] + 1, replaced});
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1]) {
        d[i][k] = std::min(d[i][k], d[i - 2][k - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool same_but_for_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

std::string nearest(std::string_view text, const std::vector<std::string>& words) {
  constexpr std::size_t kLongest = 100;  // no slip of the pen, and the work grows with the square
  if (text.size() > kLongest) return "";
  const std::string wanted = lower(text);
  std::size_t least = std::min<std::size_t>(text.size() / 3, 3) + 1;
  std::string out;
  for (const std::string& word : words) {
    const bool is_hidden =
        word.starts_with('.') && !text.starts_with('.');  // no name that people call
    if (word.size() > kLongest || word == text || is_hidden) continue;
    const std::size_t far = distance(wanted, lower(word));
    if (far >= least) continue;
    least = far;
    out = word;
  }
  return out;
}

}  // namespace cni

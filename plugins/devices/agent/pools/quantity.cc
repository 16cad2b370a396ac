#include "plugins/devices/agent/pools/quantity.h"

#include <charconv>
#include <limits>

#include "libcni/common/error.h"

namespace devices {

namespace {

constexpr std::string_view kPrefixes = "kMGTPE";
constexpr std::size_t kMaxQuantity = 32;  // an API server writes no more

struct Scale {
  std::int64_t base = 10;
  unsigned exponent = 0;
};

std::optional<Scale> exponent_in(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  unsigned exponent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error != std::errc() || end != text.data() + text.size() || exponent > 18) return {};
  return Scale{10, exponent};
}

std::optional<Scale> scale_in(std::string_view suffix) {
  if (suffix.empty()) return Scale{};
  if (suffix.size() > 1 && (suffix[0] == 'e' || suffix[0] == 'E')) {
    return exponent_in(suffix.substr(1));
  }
  const bool is_binary = suffix.ends_with('i');
  if (suffix.size() != (is_binary ? 2U : 1U)) return {};
  const char letter = is_binary && suffix[0] == 'K' ? 'k' : suffix[0];
  const auto at = kPrefixes.find(letter);
  if (at == kPrefixes.npos || (is_binary && suffix[0] == 'k')) return {};
  const auto step = static_cast<unsigned>(at + 1);
  return is_binary ? Scale{2, 10 * step} : Scale{10, 3 * step};
}

std::optional<std::int64_t> times(std::int64_t value, std::int64_t factor) {
  if (value > std::numeric_limits<std::int64_t>::max() / factor) return {};
  return value * factor;
}

}  // namespace

std::optional<std::int64_t> quantity_in(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  if (text.size() > kMaxQuantity) return {};
  const auto point = text.find('.');
  const auto end = text.find_first_not_of("0123456789.");
  auto scale = scale_in(end == text.npos ? std::string_view() : text.substr(end));
  std::string digits(text.substr(0, end));
  unsigned places = 0;
  if (point < digits.size()) {
    digits.erase(point, 1);
    while (digits.size() > point && digits.ends_with('0')) digits.pop_back();
    places = static_cast<unsigned>(digits.size() - point);
  }
  if (!scale || digits.empty() || digits.find_first_not_of(kDigits) != digits.npos) return {};
  std::int64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (read.ec != std::errc()) return {};
  std::optional<std::int64_t> out = value;
  for (unsigned i = 0; i < scale->exponent && out; ++i) {
    if (places > 0 && scale->base == 10) {
      --places;
    } else {
      out = times(*out, scale->base);
    }
  }
  for (; places > 0 && out; --places) {
    if (*out % 10 != 0) return {};
    *out /= 10;
  }
  return out;
}

std::string quantity_text(std::int64_t value) {
  std::size_t at = 0;
  for (; value != 0 && value % 1000 == 0 && at < kPrefixes.size(); ++at) value /= 1000;
  return at == 0 ? cni::cat(value) : cni::cat(value, kPrefixes[at - 1]);
}

}  // namespace devices

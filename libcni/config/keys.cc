#include "libcni/config/keys.h"

namespace cni {

namespace {

// "\"a\", \"b\" or \"c\"".
std::string alternatives(std::span<const std::string_view> words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const char* const before = i == 0 ? "" : i + 1 < words.size() ? ", " : " or ";
    out += cat(before, "\"", words[i], "\"");
  }
  return out;
}

std::string number(const Key& key) {
  if (key.or_zero) return cat("0 or ", key.minimum, " to ", key.maximum);
  if (key.maximum == std::numeric_limits<std::int64_t>::max()) {
    return cat("an integer of at least ", key.minimum);
  }
  return cat("an integer from ", key.minimum, " to ", key.maximum);
}

}  // namespace

void read_key_list(const Reader& place, KeyList keys, void* conf) {
  for (const Key& key : keys) {
    if (key.read == nullptr) continue;
    const Reader value = place[key.name];
    // An absent list reads as an empty one.
    if (key.required && key.lists > 0 && !value.present()) value.fail("expected a list");
    if (value.present() || key.required) key.read(value, key, conf);
  }
}

std::int64_t read_integer(const Reader& place, const Key& key) {
  const std::int64_t value = place.as_int(key.or_zero ? 0 : key.minimum, key.maximum);
  if (value < key.minimum && value != 0) place.fail(cat("expected ", expectation(key)));
  return value;
}

void read_text(const Reader& place, const Key& key, std::string& field) {
  std::string text = place.as_string();
  if (text.empty() && key.or_empty) return;
  if (!key.fits(text)) place.fail(cat("expected ", key.expected));
  field = std::move(text);
}

std::size_t read_enum(const Reader& place, const Key& key) {
  const std::string text = place.as_string();
  for (std::size_t i = 0; i < key.enumeration.size(); ++i) {
    if (text == key.enumeration[i]) return i;
  }
  place.fail(cat("expected ", expectation(key)));
}

std::string expectation(const Key& key) {
  if (key.expected != nullptr) return key.expected;
  switch (key.type) {
    case Type::kBool:
    case Type::kBoolOrObject:
      return "true or false";
    case Type::kInteger:
    case Type::kIntegerOrString:
      return number(key);
    case Type::kString:
      return "a string";
    case Type::kEnum:
      return alternatives(key.enumeration);
    case Type::kIp:
      return "an IP address";
    case Type::kCidr:
      return kCidrForm;
    case Type::kIpOrCidr:
      return "an IP address, with or without prefix length";
    case Type::kMac:
      return kMacForm;
    case Type::kObject:
      return "an object";
  }
  return "";
}

}  // namespace cni

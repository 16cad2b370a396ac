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
  if (key.or_zero) return cat("0 or ", key.least, " to ", key.most);
  if (key.most == std::numeric_limits<std::int64_t>::max()) {
    return cat("an integer of at least ", key.least);
  }
  return cat("an integer from ", key.least, " to ", key.most);
}

}  // namespace

void read_key_list(const Reader& place, KeyList keys, void* conf) {
  for (const Key& key : keys) {
    if (key.read == nullptr) continue;
    const Reader value = place[key.name];
    if (value.present() || key.required) key.read(value, key, conf);
  }
}

std::int64_t read_whole(const Reader& place, const Key& key) {
  const std::int64_t value = place.as_int(key.or_zero ? 0 : key.least, key.most);
  if (value < key.least && value != 0) place.fail(cat("expected ", expectation(key)));
  return value;
}

std::size_t read_word(const Reader& place, const Key& key) {
  const std::string text = place.as_string();
  for (std::size_t i = 0; i < key.words.size(); ++i) {
    if (text == key.words[i]) return i;
  }
  place.fail(cat("expected ", expectation(key)));
}

std::string expectation(const Key& key) {
  if (key.expected != nullptr) return key.expected;
  switch (key.type) {
    case Type::kBool:
      return "true or false";
    case Type::kWhole:
    case Type::kWholeOrText:
      return number(key);
    case Type::kText:
      return "a string";
    case Type::kWord:
      return alternatives(key.words);
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

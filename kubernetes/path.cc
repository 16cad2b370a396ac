#include "kubernetes/path.h"

#include "libcni/common/error.h"

namespace kubernetes {

std::string encoded(std::string_view text) {
  constexpr std::string_view kUnreserved =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (kUnreserved.find(c) != kUnreserved.npos) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
}

std::string text_of(const Query& query) {
  std::string out;
  for (const auto& [name, value] : query) {
    out += cni::cat(out.empty() ? "?" : "&", encoded(name), "=", encoded(value));
  }
  return out;
}

std::string Collection::path() const {
  const bool is_core = api.find('/') == api.npos;
  std::string out = cni::cat(is_core ? "/api/" : "/apis/", api);
  if (!space.empty()) out += cni::cat("/namespaces/", encoded(space));
  return cni::cat(out, "/", plural);
}

std::string Collection::path_of(std::string_view name, const char* subresource) const {
  std::string out = cni::cat(path(), "/", encoded(name));
  if (*subresource != '\0') out += cni::cat("/", subresource);
  return out;
}

}  // namespace kubernetes

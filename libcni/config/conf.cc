#include "libcni/config/conf.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "libcni/config/common_keys.h"
#include "libcni/config/names.h"
#include "libcni/config/nearest.h"

namespace cni {

namespace {

const nlohmann::json* find_key(const nlohmann::json& object, std::string_view key) {
  const nlohmann::json* found = nullptr;
  for (const auto& [name, value] : object.get_ref<const nlohmann::json::object_t&>()) {
    if (name.size() != key.size()) continue;
    if (name == key) return &value;
    if (found == nullptr && same_but_for_case(name, key)) found = &value;
  }
  return found;
}

}  // namespace

Reader::Reader(const nlohmann::json& doc, Code code, std::string at)
    : value_(doc.is_null() ? nullptr : &doc), code_(code), at_(std::move(at)) {}

Reader Reader::at(const nlohmann::json* value, Step step) const {
  Reader out = *this;
  if (depth_ == steps_.size()) {
    out.at_ = path();
    out.depth_ = 0;
  }
  out.steps_[out.depth_++] = step;
  out.value_ = value == nullptr || value->is_null() ? nullptr : value;
  return out;
}

Reader Reader::operator[](const char* key) const {
  if (value_ == nullptr) return at(nullptr, {key});
  if (!value_->is_object()) fail_mistyped("expected an object");
  return at(find_key(*value_, key), {key});
}

bool Reader::has(const char* key) const {
  if (value_ == nullptr) return false;
  if (!value_->is_object()) fail_mistyped("expected an object");
  return find_key(*value_, key) != nullptr;
}

std::vector<Reader> Reader::elements() const {
  std::vector<Reader> out;
  if (value_ == nullptr) return out;
  if (!value_->is_array()) fail_mistyped("expected a list");
  out.reserve(value_->size());
  for (const auto& element : *value_) out.push_back(at(&element, {.index = out.size()}));
  return out;
}

std::string Reader::path() const {
  std::string out = at_;
  for (std::size_t i = 0; i < depth_; ++i) {
    const Step& step = steps_[i];
    if (step.key == nullptr) {
      out += cat("[", step.index, "]");
    } else {
      out += cat(out.empty() ? "" : ".", step.key);
    }
  }
  return out;
}

bool Reader::as_bool() const {
  if (value_ == nullptr || !value_->is_boolean()) fail_mistyped("expected true or false");
  return value_->get<bool>();
}

std::string Reader::as_string() const {
  if (value_ == nullptr || !value_->is_string()) fail_mistyped("expected a string");
  const auto& text = value_->get_ref<const std::string&>();
  if (text.find('\0') != std::string::npos) fail(kNoNul);
  return text;
}

std::int64_t Reader::as_int(std::int64_t least, std::int64_t most) const {
  const bool too_big = value_ != nullptr && value_->is_number_unsigned() &&
                       value_->get<std::uint64_t>() >
                           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  using Limits = std::numeric_limits<std::int64_t>;
  const bool is_open = most == Limits::max() && !too_big;
  const std::string expected = !is_open ? cat("expected an integer from ", least, " to ", most)
                               : least == Limits::min()
                                   ? "expected an integer"
                                   : cat("expected an integer of at least ", least);
  if (value_ == nullptr || !value_->is_number_integer()) fail_mistyped(expected);
  const auto value = value_->get<std::int64_t>();
  if (too_big || value < least || value > most) fail(expected);
  return value;
}

Ip Reader::as_ip() const {
  const auto ip = Ip::parse(as_string());
  if (!ip) fail("not an IP address");
  return *ip;
}

Cidr Reader::as_cidr() const {
  const auto cidr = Cidr::parse(as_string());
  if (!cidr) fail(cat("expected ", kCidrForm));
  return *cidr;
}

std::vector<std::string> Reader::as_strings() const {
  std::vector<std::string> out;
  for (const Reader& element : elements()) out.push_back(element.as_string());
  return out;
}

void Reader::into(const char* key, bool& field) const {
  if (const Reader value = (*this)[key]; value.present()) field = value.as_bool();
}

void Reader::into(const char* key, std::string& field) const {
  if (const Reader value = (*this)[key]; value.present()) field = value.as_string();
}

void Reader::into(const char* key, std::vector<std::string>& field) const {
  if (const Reader value = (*this)[key]; value.present()) field = value.as_strings();
}

void Reader::into(const char* key, std::optional<Ip>& field) const {
  const Reader value = (*this)[key];
  if (value.present() && !value.as_string().empty()) field = value.as_ip();
}

void Reader::into(const char* key, std::optional<Cidr>& field) const {
  const Reader value = (*this)[key];
  if (value.present() && !value.as_string().empty()) field = value.as_cidr();
}

std::string Reader::complaint(std::string_view text) const {
  const std::string way = path();
  const std::string where = way.empty() ? "config" : way;
  std::string value = "null";  // an element of a list is there
  if (value_ != nullptr) {
    value = shortened(*value_);
  } else if (!where.ends_with(']')) {
    value = "the key is missing";
  }
  return cat(where, ": ", text, text.empty() ? "" : ": ", value);
}

void Reader::fail(std::string_view complaint) const {
  throw Error(code_, this->complaint(complaint));
}

void Reader::fail_mistyped(std::string_view expected) const {
  throw Error::mistyped(code_, complaint(expected));
}

void Reader::refuse(const std::string& sentence, std::string_view expected) const {
  throw Error(code_, sentence, complaint(expected));
}

std::string shortened(const nlohmann::json& value) {
  constexpr std::size_t kMax = 120;
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMax) text = text.substr(0, kMax) + "...";
  return text;
}

Dns dns_from(const Reader& place) {
  Dns dns;
  read_keys(place, kDnsKeys, dns);
  return dns;
}

std::vector<Route> routes_from(const Reader& place, GatewayFamily family) {
  std::vector<Route> out;
  for (const Reader& element : place.elements()) {
    Route route;
    read_keys(element, kRouteKeys, route);
    if (family == GatewayFamily::kOfDestination && route.gateway &&
        route.gateway->family() != route.dst.ip.family()) {
      element["gw"].fail(cat("not of the address family of dst ", route.dst.str()));
    }
    out.push_back(route);
  }
  return out;
}

}  // namespace cni

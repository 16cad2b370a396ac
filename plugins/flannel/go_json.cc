#include "plugins/flannel/go_json.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

namespace flannel {

namespace {

using Json = nlohmann::ordered_json;

/// A number as its digits, with the point after the first one, and the power of ten.
struct Decimal {
  std::string digits;
  int exponent = 0;
};

// The fewest digits that are read as the same number (strconv.FormatFloat with precision -1).
Decimal shortest(double value) {
  char text[32];
  for (int precision = 0; precision <= 16; ++precision) {
    std::snprintf(text, sizeof text, "%.*e", precision, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  const std::string_view all = text;
  const auto e = all.find('e');
  Decimal out{.digits = std::string(all.substr(0, e)), .exponent = std::atoi(text + e + 1)};
  if (out.digits.size() > 1) out.digits.erase(1, 1);
  return out;
}

// floatEncoder in encoding/json/encode.go: an exponent below 1e-6 and from 1e21.
void write_number(double value, std::string& out) {
  if (std::signbit(value)) out += '-';
  auto [digits, exponent] = shortest(std::abs(value));
  const int more = exponent + 1 - static_cast<int>(digits.size());  // digits left of the point
  if (exponent < -6 || exponent >= 21) {
    if (digits.size() > 1) digits.insert(1, 1, '.');
    out += digits + (exponent < 0 ? "e-" : "e+") + std::to_string(std::abs(exponent));
  } else if (more >= 0) {
    out += digits.append(static_cast<std::size_t>(more), '0');
  } else if (exponent >= 0) {
    out += digits.insert(static_cast<std::size_t>(exponent) + 1, 1, '.');
  } else {
    out += "0." + std::string(static_cast<std::size_t>(-exponent) - 1, '0') + digits;
  }
}

// All that JSON escapes, and what a browser could take for HTML or the end of a script.
void write_string(const std::string& text, std::string& out) {
  const std::string plain = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const std::string_view rest = std::string_view(plain).substr(i);
    if (plain[i] == '<' || plain[i] == '>' || plain[i] == '&') {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(plain[i]));
      out += escape;
    } else if (rest.starts_with("\xe2\x80\xa8") || rest.starts_with("\xe2\x80\xa9")) {
      out += plain[i + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += plain[i];
    }
  }
}

void write(const Json& value, std::string& out) {
  const char* between = "";
  if (value.is_object()) {
    out += '{';
    for (const auto& [key, one] : value.items()) {
      out += std::exchange(between, ",");
      write_string(key, out);
      out += ':';
      write(one, out);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (const Json& one : value) {
      out += std::exchange(between, ",");
      write(one, out);
    }
    out += ']';
  } else if (value.is_number()) {
    write_number(value.get<double>(), out);
  } else if (value.is_string()) {
    write_string(value.get_ref<const std::string&>(), out);
  } else {
    out += value.dump();
  }
}

}  // namespace

std::string go_json(const Json& value) {
  std::string out;
  write(value, out);
  return out;
}

}  // namespace flannel

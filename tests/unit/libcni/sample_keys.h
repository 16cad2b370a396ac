#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "libcni/config/common_keys.h"
#include "libcni/config/keys.h"

/// A table with a key of every kind.
namespace sample {

enum class Colour { kRed, kGreen };
inline constexpr std::string_view kColours[] = {"red", "green"};

struct Inner {
  bool deep = true;
  bool operator==(const Inner&) const = default;
};

struct Item {
  cni::Cidr net;
  std::uint16_t port = 7;
  bool operator==(const Item&) const = default;
};

struct Conf {
  bool flag = false;
  std::string text = "old";
  std::uint8_t small = 0;
  std::int64_t large = 0;
  unsigned mtu = 0;
  Colour colour = Colour::kRed;
  std::optional<Colour> maybe;
  std::vector<std::string> texts{"old"};
  std::optional<cni::Ip> address;
  std::vector<cni::Cidr> nets;
  Inner inner;
  std::vector<Item> items;
  std::vector<std::vector<unsigned>> grid;
  std::string by_runtime;
  std::string shout;
  bool operator==(const Conf&) const = default;
};

inline void read_shout(const cni::Reader& place, Conf& conf) {
  conf.shout = place.as_string() + "!";
  if (conf.shout == "no!") place.fail("expected something to shout");
}

inline bool is_small(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

// "2-3".
inline bool is_range(const std::string& text) {
  const auto dash = text.find('-');
  return dash != 0 && dash != std::string::npos && dash + 1 < text.size() &&
         text.find_first_not_of("0123456789-") == std::string::npos;
}

inline constexpr auto kItemKeys =
    cni::keys(cni::key<&Item::net>({.name = "net", .description = "the network", .required = true}),
              cni::key<&Item::port>(
                  {.name = "port", .description = "the port", .default_text = "7", .minimum = 1}));

inline constexpr auto kRuntimeKeys =
    cni::keys(cni::key<&Conf::by_runtime>({.name = "given", .description = "what is given"}));

inline constexpr auto kKeys = cni::keys(
    cni::key<&Conf::flag>({.name = "flag", .description = "whether `text` counts"}),
    cni::key<&Conf::text>({.name = "text", .description = "some text", .default_text = "`old`"}),
    cni::key<&Conf::small>({.name = "small", .description = "of one byte"}),
    cni::key<&Conf::large>({.name = "large", .description = "of eight", .minimum = -5}),
    cni::key<&Conf::mtu>(
        {.name = "mtu", .description = "or zero", .minimum = 68, .maximum = 9000, .or_zero = true}),
    cni::key<&Conf::colour>({.name = "colour",
                             .description = "a word",
                             .default_text = "`red`",
                             .enumeration = kColours}),
    cni::key<&Conf::maybe>(
        {.name = "maybe", .description = "a word", .enumeration = kColours, .or_empty = true}),
    cni::key<&Conf::texts>({.name = "texts", .description = "several texts"}),
    cni::key<&Conf::address>({.name = "address", .description = "an address"}),
    cni::key<&Conf::nets>({.name = "nets", .description = "networks"}),
    cni::key<&Conf::inner, &Inner::deep>(
        {.name = "deep", .description = "further down", .default_text = "true"}),
    cni::list<kItemKeys, &Conf::items>({.name = "items", .description = "things"}),
    cni::key<&Conf::grid>({.name = "grid", .description = "numbers", .maximum = 9}),
    cni::custom<read_shout>({.name = "shout",
                             .description = "loud",
                             .pattern = "^[a-z]*$",
                             .fits = is_small,
                             .expected = "small letters"}),
    cni::described<Conf>({.name = "ports",
                          .description = "read elsewhere",
                          .type = cni::Type::kIntegerOrString,
                          .lists = 1,
                          .minimum = 1,
                          .maximum = 65535,
                          .pattern = "^[0-9]+-[0-9]+$",
                          .fits = is_range,
                          .expected = "a port or a range"}),
    cni::part<kRuntimeKeys>({.name = "runtimeConfig", .open = true}));

inline constexpr cni::Key kArgs[] = {
    {.name = "MAC", .description = "an address", .type = cni::Type::kMac}};

inline constexpr cni::Manual kManual{
    .purpose = "shows every kind of `key`", .keys = kKeys, .args = kArgs};

}  // namespace sample

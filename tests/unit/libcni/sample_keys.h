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

inline constexpr auto kItemKeys = cni::keys(
    cni::key<&Item::net>({.name = "net", .meaning = "the network", .required = true}),
    cni::key<&Item::port>({.name = "port", .meaning = "the port", .otherwise = "7", .least = 1}));

inline constexpr auto kRuntimeKeys =
    cni::keys(cni::key<&Conf::by_runtime>({.name = "given", .meaning = "what is given"}));

inline constexpr auto kKeys = cni::keys(
    cni::key<&Conf::flag>({.name = "flag", .meaning = "whether `text` counts"}),
    cni::key<&Conf::text>({.name = "text", .meaning = "some text", .otherwise = "`old`"}),
    cni::key<&Conf::small>({.name = "small", .meaning = "of one byte"}),
    cni::key<&Conf::large>({.name = "large", .meaning = "of eight", .least = -5}),
    cni::key<&Conf::mtu>(
        {.name = "mtu", .meaning = "or zero", .least = 68, .most = 9000, .or_zero = true}),
    cni::key<&Conf::colour>(
        {.name = "colour", .meaning = "a word", .otherwise = "`red`", .words = kColours}),
    cni::key<&Conf::maybe>(
        {.name = "maybe", .meaning = "a word", .words = kColours, .or_empty = true}),
    cni::key<&Conf::texts>({.name = "texts", .meaning = "several texts"}),
    cni::key<&Conf::address>({.name = "address", .meaning = "an address"}),
    cni::key<&Conf::nets>({.name = "nets", .meaning = "networks"}),
    cni::key<&Conf::inner, &Inner::deep>(
        {.name = "deep", .meaning = "further down", .otherwise = "true"}),
    cni::list<kItemKeys, &Conf::items>({.name = "items", .meaning = "things"}),
    cni::key<&Conf::grid>({.name = "grid", .meaning = "numbers", .most = 9}),
    cni::custom<read_shout>({.name = "shout",
                             .meaning = "loud",
                             .pattern = "^[a-z]*$",
                             .fits = is_small,
                             .expected = "small letters"}),
    cni::described<Conf>({.name = "ports",
                          .meaning = "read elsewhere",
                          .type = cni::Type::kWholeOrText,
                          .lists = 1,
                          .least = 1,
                          .most = 65535,
                          .pattern = "^[0-9]+-[0-9]+$",
                          .fits = is_range,
                          .expected = "a port or a range"}),
    cni::part<kRuntimeKeys>({.name = "runtimeConfig", .open = true}));

inline constexpr cni::Key kArgs[] = {
    {.name = "MAC", .meaning = "an address", .type = cni::Type::kMac}};

inline constexpr cni::Manual kManual{
    .purpose = "shows every kind of `key`", .keys = kKeys, .args = kArgs};

}  // namespace sample

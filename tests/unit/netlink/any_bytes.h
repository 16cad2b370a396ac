#pragma once

#include <doctest/doctest.h>
#include <linux/netlink.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <stdexcept>

#include "netlink/route/request.h"
#include "tests/judge/judge.h"

/// Decodes every beginning of a message, and the message with bytes of it changed at random, in
/// memory that is not a byte longer. Nothing may come of it but a result, or the one exception for
/// what is shorter than its fixed header.
template <class Decode>
void harmless_for_any_bytes(const netlink::Message& message, const Decode& decode) {
  const judge::AnyBytes harmless;
  const netlink::Bytes whole(message.bytes().begin(), message.bytes().end());
  const auto attempt = [&decode](netlink::Bytes copy) {
    copy.shrink_to_fit();
    try {
      decode(netlink::Reply(copy));
    } catch (const std::invalid_argument&) {
    }
  };
  for (std::size_t size = NLMSG_HDRLEN; size <= whole.size(); ++size) {
    attempt({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
  }
  std::mt19937 random(1);  // the same bytes in every run
  for (int round = 0; round < 20000; ++round) {
    netlink::Bytes copy = whole;
    for (auto changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t at = NLMSG_HDRLEN + random() % (copy.size() - NLMSG_HDRLEN);
      const auto value = random();
      copy[at] = static_cast<std::uint8_t>(value % 4 == 0 ? value >> 8 : value % 48);
    }
    attempt(std::move(copy));
  }
}

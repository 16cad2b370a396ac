#pragma once

#include <doctest/doctest.h>
#include <linux/netlink.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

#include "netlink/route/message.h"

/// Decodes every beginning of a message, and the message with bytes of it changed at random, in
/// memory that is not a byte longer. Nothing may come of it but a result, or the one exception for
/// what is shorter than its fixed header.
template <class Decode>
void harmless_for_any_bytes(const netlink::Message& message, const Decode& decode) {
  const nlmsghdr* const header = message.header();
  const auto* const bytes = reinterpret_cast<const char*>(header);
  const auto attempt = [&decode](std::vector<char> copy) {
    copy.shrink_to_fit();
    const nlmsghdr* const cut = reinterpret_cast<nlmsghdr*>(copy.data());
    reinterpret_cast<nlmsghdr*>(copy.data())->nlmsg_len = static_cast<std::uint32_t>(copy.size());
    try {
      decode(netlink::Reply(cut));
    } catch (const std::invalid_argument&) {
    }
  };
  for (std::size_t size = NLMSG_HDRLEN; size <= header->nlmsg_len; ++size) {
    attempt({bytes, bytes + size});
  }
  std::mt19937 random(1);  // the same bytes in every run
  for (int round = 0; round < 20000; ++round) {
    std::vector<char> copy(bytes, bytes + header->nlmsg_len);
    for (auto changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t at = NLMSG_HDRLEN + random() % (copy.size() - NLMSG_HDRLEN);
      const auto value = random();
      copy[at] = static_cast<char>(value % 4 == 0 ? value >> 8 : value % 48);
    }
    attempt(std::move(copy));
  }
}

#pragma once

#include "netlink/types/ip.h"

/// An address of a test.
inline netlink::Ip ip(const char* text) { return *netlink::Ip::parse(text); }

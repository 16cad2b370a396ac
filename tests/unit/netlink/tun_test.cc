#include "netlink/tun.h"

#include <doctest/doctest.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>

#include "netlink/route/link_data.h"

using namespace netlink;

TEST_CASE("a tap has frames with a virtio-net header and nothing else before them, and is new") {
  CHECK(tap_flags(false) == (IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_TUN_EXCL));
  CHECK(tap_flags(true) == (tap_flags(false) | IFF_MULTI_QUEUE));
}

TEST_CASE("SELinux is what has a file system") {
  CHECK(lists_selinux("nodev\tsysfs\nnodev\tselinuxfs\n\text4\n"));
  CHECK_FALSE(lists_selinux("nodev\tsysfs\n\text4\n"));
  CHECK_FALSE(lists_selinux(""));
}

TEST_CASE("a tap as the kernel shows it") {
  Message message(0, 0, 0U);
  message.put_u8(IFLA_TUN_TYPE, IFF_TAP);
  message.put_u8(IFLA_TUN_PI, 0);
  message.put_u8(IFLA_TUN_VNET_HDR, 1);
  message.put_u8(IFLA_TUN_PERSIST, 1);
  message.put_u8(IFLA_TUN_MULTI_QUEUE, 1);
  message.put_u32(IFLA_TUN_OWNER, 0);
  const View attributes = message.bytes().subspan(20);  // nlmsghdr, and the four bytes of above
  const LinkData data = data_of("tun", Attributes(attributes));
  CHECK(std::get<Tun>(data) ==
        Tun{.tap = true, .vnet_header = true, .multi_queue = true, .persistent = true, .owner = 0});
}

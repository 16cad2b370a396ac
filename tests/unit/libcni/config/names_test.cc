#include "libcni/config/names.h"

#include <doctest/doctest.h>

TEST_CASE("a pod without a namespace, as of podman, has its name alone") {
  CHECK(cni::pod_name("shop", "web-1") == "shop/web-1");
  CHECK(cni::pod_name("", "web-1") == "web-1");
  CHECK(cni::pod_name("shop", "").empty());
}

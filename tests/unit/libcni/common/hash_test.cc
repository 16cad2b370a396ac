#include "libcni/common/hash.h"

#include <doctest/doctest.h>

#include "libcni/common/error.h"

using cni::attachment_hash;
using cni::OwnerTag;
using cni::sha512_hex;

TEST_CASE("SHA-512 agrees with the examples of FIPS 180-4") {
  CHECK(sha512_hex("abc") ==
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
        "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f");
  CHECK(sha512_hex("") ==
        "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
        "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e");
  CHECK(sha512_hex("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                   "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu") ==
        "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018"
        "501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909");
  CHECK(sha512_hex(std::string(1'000'000, 'a')) ==
        "e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973eb"
        "de0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b");
}

TEST_CASE("SHA-512 pads texts around the block boundary") {  // as Python's hashlib
  CHECK(sha512_hex(std::string(111, 'a')).substr(0, 16) == "fa9121c7b32b9e01");
  CHECK(sha512_hex(std::string(112, 'a')).substr(0, 16) == "c01d080efd492776");
  CHECK(sha512_hex(std::string(128, 'a')).substr(0, 16) == "b73d1929aa615934");
}

TEST_CASE("chain names are the reference's") {
  CHECK(attachment_hash(28, "CNI-", "test", "1234") == "CNI-2bbe0c48b91a7d1b8a6753a8");
  CHECK(attachment_hash(28, "CNI-", "testalongnamethatdoesnotmakesense", "1234") ==
        "CNI-374f33fe84ab0ed84dcdebe3");
  CHECK(attachment_hash(28, "CNI-PREFIX-", "test", "1234") == "CNI-PREFIX-2bbe0c48b91a7d1b8");
}

TEST_CASE("an owner's tag starts with the reference's hashes") {
  CHECK(OwnerTag("unit-test", "one", "eth0").network_hash == "6fd94d501e58f0aa");
  CHECK(OwnerTag("alternate", "one", "eth0").network_hash == "82783ef24bdc7036");
  const struct {
    const char *ifname, *id, *hash;
  } table[] = {{"eth0", "one", "287fc69eff0574a2"},
               {"eth0", "two", "d750b2c8f0f25d5f"},
               {"eth0", "three", "a4d4adb82b669cfe"},
               {"eth0", "four", "e766de567ef6c543"},
               {"net1", "three", "acb19d111858e348"}};
  for (const auto& row : table) {
    CAPTURE(row.hash);
    CHECK(OwnerTag("unit-test", row.id, row.ifname).instance_hash == row.hash);
  }
}

TEST_CASE("an owner's tag says whose it is, in words") {
  const OwnerTag tag("unit-test", "one", "eth0");
  CHECK(tag.text == "6fd94d501e58f0aa-287fc69eff0574a2, net: unit-test, if: eth0, id: one");
  CHECK(tag.prefix() == "6fd94d501e58f0aa-287fc69eff0574a2");
  CHECK(tag.text.starts_with(tag.prefix()));
}

TEST_CASE("an owner's tag has no double quotes and fits into a comment") {
  const OwnerTag quoted("n", "a\"b", "e\"0");
  CHECK(quoted.text.find('"') == std::string::npos);
  CHECK(quoted.text.ends_with("net: n, if: e0, id: ab"));
  const OwnerTag longest("net", std::string(300, 'x'), "eth0");
  CHECK(longest.text.size() == 128);
  CHECK(longest.text.starts_with(longest.prefix()));
}

TEST_CASE("a person's alias is no tag") {
  CHECK(OwnerTag::is_tag(OwnerTag("net", "id", "eth0").text));
  CHECK(OwnerTag::is_tag("0123456789abcdef-0123456789abcdef"));
  for (const char* const other :
       {"", "uplink to rack 7", "0123456789abcdef-0123456789abcde",
        "0123456789abcdef_0123456789abcdef", "0123456789abcdef-0123456789abcdeX",
        "0123456789abcdeg-0123456789abcdef", "01234567-89abcdef-0123456789abcdef"}) {
    CHECK_MESSAGE(!OwnerTag::is_tag(other), other);
  }
}

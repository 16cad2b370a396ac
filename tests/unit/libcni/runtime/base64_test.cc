#include "libcni/runtime/base64.h"

#include <doctest/doctest.h>

using cni::base64_decode;
using cni::base64_encode;

TEST_CASE("base64: the vectors of RFC 4648") {
  const struct {
    const char *bytes, *text;
  } table[] = {{"", ""},
               {"f", "Zg=="},
               {"fo", "Zm8="},
               {"foo", "Zm9v"},
               {"foob", "Zm9vYg=="},
               {"fooba", "Zm9vYmE="},
               {"foobar", "Zm9vYmFy"}};
  for (const auto& row : table) {
    CHECK(base64_encode(row.bytes) == row.text);
    CHECK(base64_decode(row.text) == row.bytes);
  }
}

TEST_CASE("base64: any bytes come back") {
  std::string bytes;
  for (unsigned i = 0; i < 1000; ++i) {
    bytes += static_cast<char>(i * 7 % 256);
    CHECK(base64_decode(base64_encode(bytes)) == bytes);
  }
}

TEST_CASE("base64: lines may be broken") { CHECK(base64_decode("Zm9v\r\nYmFy\n") == "foobar"); }

TEST_CASE("base64: what is none is refused") {
  for (const char* text : {"Z", "Zg", "Zg=", "Zg===", "=", "====", "Z===", "Zg==Zg==", "Zg=a",
                           "Zm 9v", "Zm9-", "Zm9_", "\x80\x80\x80\x80"}) {
    CAPTURE(text);
    CHECK_FALSE(base64_decode(text));
  }
}

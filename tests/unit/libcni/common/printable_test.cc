#include "libcni/common/printable.h"

#include <doctest/doctest.h>

using cni::printable_text;

TEST_CASE("text of all languages, line breaks and tabs stay as they are") {
  for (const char* text : {"", "eth0", "a\n\tb", "Müller", "\u0800 \uffff \U00010000 \U0010ffff"}) {
    CHECK(printable_text(text) == text);
  }
}

TEST_CASE("control characters are question marks") {
  CHECK(printable_text("\x1b[2J$(id)") == "?[2J$(id)");
  CHECK(printable_text("\x1b]0;title\a") == "?]0;title?");
  CHECK(printable_text(std::string_view("a\0b\r\x7f", 5)) == "a?b??");
  CHECK(printable_text("\xc2\x9b\x32J") == "?2J");  // CSI of C1
}

TEST_CASE("bytes that are no UTF-8 are question marks") {
  CHECK(printable_text("\x9b\x32J") == "?2J");
  CHECK(printable_text("\xc0\x9b") == "??");                 // an overlong ESC
  CHECK(printable_text("\xe0\x80\x9b") == "???");            // the same in three bytes
  CHECK(printable_text("\xed\xa0\x80") == "???");            // a surrogate
  CHECK(printable_text("\xf4\x90\x80\x80\xff") == "?????");  // beyond U+10FFFF
  CHECK(printable_text("\xe2\x82") == "??");                 // cut off
}

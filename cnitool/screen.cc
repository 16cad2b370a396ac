#include "cnitool/screen.h"

#include "cnitool/output.h"
#include "libcni/common/printable.h"

namespace tool {

namespace {

// The bytes of a colour at the beginning of the text; 0: there is none.
std::size_t colour_in(std::string_view text) {
  for (const std::string_view code : colour_codes()) {
    if (!code.empty() && text.starts_with(code)) return code.size();
  }
  return 0;
}

std::string safe(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t escape = std::min(text.find('\x1b'), text.size());
    out += cni::printable_text(text.substr(0, escape));
    text.remove_prefix(escape);
    if (text.empty()) break;
    const std::size_t colour = colour_in(text);
    out += colour == 0 ? "?" : text.substr(0, colour);
    text.remove_prefix(colour == 0 ? 1 : colour);
  }
  return out;
}

}  // namespace

Screen::Screen(std::ostream& stream) : stream_(stream), below_(stream.rdbuf(this)) {}

Screen::~Screen() {
  Screen::sync();
  stream_.rdbuf(below_);
}

Screen::int_type Screen::overflow(int_type c) {
  if (!traits_type::eq_int_type(c, traits_type::eof())) text_ += traits_type::to_char_type(c);
  return traits_type::not_eof(c);
}

std::streamsize Screen::xsputn(const char* text, std::streamsize count) {
  text_.append(text, static_cast<std::size_t>(count));
  return count;
}

int Screen::sync() {
  const std::string text = safe(text_);
  text_.clear();
  const auto size = static_cast<std::streamsize>(text.size());
  return below_->sputn(text.data(), size) == size && below_->pubsync() == 0 ? 0 : -1;
}

}  // namespace tool

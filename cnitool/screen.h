#pragma once

#include <ostream>
#include <string>

namespace tool {

/// What a stream prints until its end becomes text that is safe on a terminal, with
/// cni::printable_text(): all but colours of Output::painted(). It is written where the stream is
/// flushed.
class Screen : public std::streambuf {
 public:
  explicit Screen(std::ostream& stream);
  ~Screen() override;
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  std::ostream& stream_;
  std::streambuf* below_;
  std::string text_;
};

}  // namespace tool

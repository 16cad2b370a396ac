#pragma once

#include "cnitool/validate/json_text.h"

namespace cni {

/// Reads one text for read_json_text(): what JSON is (RFC 8259), and what people write instead.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  JsonText scan();

 private:
  /// The rest cannot be understood; the mistake is noted.
  struct Stop {};

  void begin();
  void document();
  nlohmann::json value(const std::string& path, const Span& key);
  nlohmann::json value_at(const std::string& path);
  nlohmann::json object(const std::string& path);
  nlohmann::json list(const std::string& path);
  nlohmann::json text();
  nlohmann::json number();
  nlohmann::json word();
  std::string key();
  void member(const std::string& path, nlohmann::json& out);
  void colon(const std::string& key, const Span& at);
  bool more(char close, std::size_t opener, bool first);
  void quoted(char quote);
  void blank();
  void comment(std::string_view begin, std::string_view end);
  std::string_view bare();

  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  std::string here() const;
  std::string line_of(std::size_t offset) const;
  void note(Span at, std::string what, std::string suggestion = {});
  [[noreturn]] void stop(Span at, std::string what, std::string suggestion = {});

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t after_value_ = 0;  // where the newest value ended
  int depth_ = 0;
  JsonText out_;
};

}  // namespace cni

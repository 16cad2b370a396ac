#include "cnitool/validate/diagnostics.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tool {

namespace {

using nlohmann::ordered_json;

std::string_view line_at(std::string_view text, std::size_t offset) {
  const auto before = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  const std::string_view rest = text.substr(begin);
  std::string_view line = rest.substr(0, rest.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// A line with the place in it, cut where it is too long to be looked at: what cuts stands for
// itself.
struct Excerpt {
  std::string text, marks;
};

Excerpt excerpt_of(const Diagnostic& diagnostic) {
  constexpr std::size_t kColumns = 100;
  const std::size_t place = diagnostic.at.column - 1;
  const std::size_t from = place < kColumns * 3 / 4 ? 0 : place - kColumns / 2;
  Excerpt out;
  std::size_t column = 0;
  for (const char c : diagnostic.line) {
    if (cni::begins_character(c)) ++column;
    if (column <= from || column > from + kColumns) continue;
    const bool control = static_cast<unsigned char>(c) < 0x20 && c != '\t';
    out.text += control ? ' ' : c;
    if (column <= place && cni::begins_character(c)) out.marks += c == '\t' ? '\t' : ' ';
  }
  const std::size_t most = std::max<std::size_t>(from + kColumns, place + 1) - place;
  const std::size_t rest = std::max<std::size_t>(column, place + 1) - place;
  const std::size_t width = std::min({std::max<std::size_t>(diagnostic.width, 1), most, rest});
  out.marks += cat("^", std::string(width - 1, '~'));
  return out;
}

Colour colour_of(Severity severity) {
  return severity == Severity::kError     ? Colour::kRed
         : severity == Severity::kWarning ? Colour::kYellow
                                          : Colour::kDim;
}

std::string place_of(const Diagnostic& diagnostic) {
  if (diagnostic.at.line == 0) return diagnostic.file;
  return cat(diagnostic.file, ":", diagnostic.at.line, ":", diagnostic.at.column);
}

std::string message_of(const Diagnostic& diagnostic) {
  const std::string& meant = diagnostic.remark.suggestion;
  return cat(diagnostic.path, diagnostic.path.empty() ? "" : ": ", diagnostic.remark.what,
             meant.empty() ? "" : cat(" (did you mean ", meant, "?)"));
}

ordered_json json_of(const Diagnostic& diagnostic) {
  ordered_json out{{"file", diagnostic.file}};
  if (diagnostic.at.line != 0) {
    out["line"] = diagnostic.at.line;
    out["column"] = diagnostic.at.column;
  }
  out["severity"] = str(diagnostic.remark.severity);
  out["path"] = diagnostic.path;
  out["message"] = diagnostic.remark.what;
  if (!diagnostic.remark.suggestion.empty()) out["suggestion"] = diagnostic.remark.suggestion;
  return out;
}

}  // namespace

Document Document::from(std::string file, std::string text) {
  cni::JsonText json = cni::read_json_text(text);
  return {std::move(file), std::move(text), std::move(json)};
}

std::string_view str(Severity severity) {
  return severity == Severity::kError     ? "error"
         : severity == Severity::kWarning ? "warning"
                                          : "note";
}

std::string Diagnostic::str() const {
  return cat(place_of(*this), ": ", tool::str(remark.severity), ": ", message_of(*this));
}

void Diagnostics::insert(const Document& document, cni::Span span, Diagnostic diagnostic) {
  diagnostic.file = document.file;
  diagnostic.at = cni::position_in(document.text, span.begin);
  diagnostic.line = line_at(document.text, span.begin);
  const auto stretch = std::string_view(document.text).substr(span.begin, span.end - span.begin);
  const bool whole = stretch.starts_with('{') || stretch.starts_with('[');
  diagnostic.width = whole ? 1 : cni::characters(stretch.substr(0, stretch.find('\n')));
  const auto covered = [&diagnostic](const Diagnostic& one) {
    return one.file == diagnostic.file && one.at == diagnostic.at &&
           (one.remark.severity == Severity::kError || one.str() == diagnostic.str());
  };
  if (std::ranges::none_of(all_, covered)) all_.push_back(std::move(diagnostic));
}

void Diagnostics::add(const Document& document, const std::string& path, Remark remark, At at) {
  const cni::TextPlace& place = document.json.nearest(path);
  const bool key = at == At::kKey && place.key.end != 0 && document.json.find(path) != nullptr;
  insert(document, key ? place.key : place.value, {.path = path, .remark = std::move(remark)});
}

void Diagnostics::add(const Document& document, cni::Span span, Remark remark) {
  insert(document, span, {.remark = std::move(remark)});
}

void Diagnostics::add(const std::string& file, Remark remark) {
  all_.push_back({.file = file, .remark = std::move(remark)});
}

std::size_t Diagnostics::count(Severity severity) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      all_, [severity](const Diagnostic& one) { return one.remark.severity == severity; }));
}

void Diagnostics::sort(const std::vector<std::string>& files) {
  const auto rank = [&files](const Diagnostic& one) {
    return std::tuple(std::ranges::find(files, one.file), one.at.line, one.at.column);
  };
  std::ranges::stable_sort(
      all_, [&rank](const Diagnostic& a, const Diagnostic& b) { return rank(a) < rank(b); });
}

void print(const Diagnostics& diagnostics, const Output& output) {
  if (output.json) {
    ordered_json out = ordered_json::array();
    for (const Diagnostic& one : diagnostics.all()) out.push_back(json_of(one));
    return output.print(out);
  }
  for (const Diagnostic& one : diagnostics.all()) {
    const Severity severity = one.remark.severity;
    output.out << output.painted(Colour::kBold, cat(place_of(one), ": "))
               << output.painted(colour_of(severity), cat(str(severity), ": "))
               << output.painted(Colour::kBold, message_of(one)) << '\n';
    if (one.at.line == 0) continue;
    const Excerpt excerpt = excerpt_of(one);
    output.out << "  " << excerpt.text << "\n  " << output.painted(Colour::kGreen, excerpt.marks)
               << '\n';
  }
}

}  // namespace tool

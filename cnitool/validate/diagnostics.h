#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cnitool/output.h"
#include "cnitool/validate/json_text.h"

namespace tool {

/// A file of networks as it was written. It must outlive what is found in it.
struct Document {
  std::string file;  ///< as the user named it; "<stdin>"
  std::string text;
  cni::JsonText json;

  static Document from(std::string file, std::string text);
};

/// A note changes nothing; a warning is what its writer may come to regret; with an error some
/// runtime or plugin refuses the network.
enum class Severity { kNote, kWarning, kError };

/// "note", "warning", "error".
std::string_view str(Severity severity);

/// An error or a warning, without its place.
struct Remark {
  Severity severity = Severity::kError;
  std::string what;
  std::string suggestion = {};  ///< what may have been meant; may be empty
};

/// The part of a key and its value that a remark is about.
enum class At { kKey, kValue };

/// An error or a warning, with its place in the file.
struct Diagnostic {
  std::string file = {};
  cni::TextPosition at = {.line = 0, .column = 0};  ///< 0: the file as a whole
  std::string path = {};                            ///< of the value in the document; may be empty
  Remark remark;
  std::string line = {};  ///< of the text, as it is
  std::size_t width = 1;  ///< characters of it that the diagnostic is about

  /// "a.conflist:3:7: error: plugins[0].mtu: expected ...".
  std::string str() const;
};

/// The errors and warnings of some files. Of several errors at one place only the first is kept:
/// what follows from a slip is no news.
class Diagnostics {
 public:
  /// About the value at a path of the document, or where there is none about what is around it.
  void add(const Document& document, const std::string& path, Remark remark, At at = At::kValue);
  /// About a stretch of the text itself.
  void add(const Document& document, cni::Span span, Remark remark);
  /// About a file as a whole.
  void add(const std::string& file, Remark remark);

  std::size_t count(Severity severity) const;
  /// Orders them by files as they are in the list, and in each by place.
  void sort(const std::vector<std::string>& files);
  const std::vector<Diagnostic>& all() const { return all_; }

 private:
  void insert(const Document& document, cni::Span span, Diagnostic diagnostic);

  std::vector<Diagnostic> all_;
};

/// Each with its line of the file, below which the place is marked, as compilers do: the caret is
/// printed on a terminal or not, as logs are where it is read most. With --json a list of objects.
void print(const Diagnostics& diagnostics, const Output& output);

}  // namespace tool

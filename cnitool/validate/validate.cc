#include "cnitool/validate/validate.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <list>
#include <optional>

#include "cnitool/node_runtimes.h"
#include "cnitool/validate/chain_check.h"
#include "cnitool/validate/default_routes.h"
#include "cnitool/validate/plugin_check.h"
#include "cnitool/validate/pools_check.h"
#include "libcni/runtime/conflist.h"
#include "netlink/types/fd.h"

namespace tool {

namespace {

namespace fs = std::filesystem;

// The files of a directory with one of these endings, by name; as load_networks() takes them.
std::vector<std::string> files_in(const std::string& dir,
                                  std::initializer_list<std::string_view> endings,
                                  std::error_code& error) {
  std::vector<std::string> out;
  for (fs::directory_iterator it(dir, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string ending = it->path().extension().string();
    std::error_code unreadable;
    if (std::ranges::find(endings, ending) != endings.end() && !it->is_directory(unreadable)) {
      out.push_back(it->path().string());
    }
  }
  std::ranges::sort(out);
  return out;
}

/// Everything that is looked at together. Documents and networks stay where they are.
class Validator {
 public:
  Validator(const Settings& settings, const cni::Env& env)
      : path_(settings.path), env_(env), plugins_(settings.path, env) {}

  void look_at(const std::string& name) {
    std::error_code error;
    if (name == "-") {
      Document* const document =
          understood(Document::from("<stdin>", netlink::read_all(STDIN_FILENO, "stdin")));
      if (document != nullptr) look_at_document(*document, Form::kEither, "");
    } else if (fs::is_directory(name, error)) {
      look_at_directory(name);
    } else {
      look_at_file(name);
    }
  }

  const Diagnostics& finish(bool of_one_pod) {
    check_together(networks_, diagnostics_);
    if (of_one_pod) check_default_routes(networks_, diagnostics_);
    diagnostics_.sort(names_);
    return diagnostics_;
  }

  std::size_t files() const { return documents_.size(); }

 private:
  // Notes what is wrong with the text itself. Null where it cannot be understood for that.
  Document* understood(Document document) {
    documents_.push_back(std::move(document));
    Document& kept = documents_.back();
    names_.push_back(kept.file);
    for (const cni::TextMistake& one : kept.json.mistakes) {
      diagnostics_.add(kept, one.at, {.what = one.what, .suggestion = one.suggestion});
    }
    return kept.json.readable ? &kept : nullptr;
  }

  Document* read(const std::string& file) {
    names_.push_back(file);
    try {
      auto text = netlink::read_regular_file(file);
      if (text) return understood(Document::from(file, std::move(*text)));
      diagnostics_.add(file, {.what = "no such file or directory"});
    } catch (const netlink::Error& e) {
      diagnostics_.add(file, {.what = e.what()});
    }
    return nullptr;
  }

  void look_at_plugins_beside(NetworkText& network, const std::string& dir) {
    if (dir.empty()) return;
    std::error_code none;  // the directory need not be there
    for (const std::string& file : files_in(dir, {".conf"}, none)) {
      if (Document* const document = read(file)) add_plugin(*document, network, diagnostics_);
    }
  }

  // The runtime's loader may find what the checks before have not.
  void load_as_runtimes_do(const Document& document, const std::string& file) try {
    if (file.empty()) {
      if (member(document.json.value, "plugins") != nullptr) cni::list_from(document.text);
    } else {
      cni::load_list(file);
    }
  } catch (const cni::Error& e) {
    diagnostics_.add(document, "", {.what = e.what()});
  }

  void look_at_network(Document& document, Form form, const std::string& file) {
    const std::size_t before = diagnostics_.count(Severity::kError);
    networks_.push_back(read_network(document, form, diagnostics_));
    NetworkText& network = networks_.back();
    if (!file.empty()) {
      const std::string dir = fs::path(file).parent_path().string();
      look_at_plugins_beside(network, more_plugins_dir(network, dir.empty() ? "." : dir));
    }
    if (network.version_known) look_at_version(network);
    require_plugins(network, diagnostics_);
    check_plugins(network, plugins_, diagnostics_);
    check_chain(network, plugins_, diagnostics_);
    const bool right =
        document.json.mistakes.empty() && before == diagnostics_.count(Severity::kError);
    if (right) load_as_runtimes_do(document, file);
  }

  // The file may be for another node: no more than a warning.
  void look_at_version(const NetworkText& network) {
    if (!runtimes_) runtimes_ = node_runtimes();
    const std::string single = text_at(network.document->json.value, "cniVersion");
    const auto advice = version_advice(single, network.version, *runtimes_);
    if (!advice) return;
    diagnostics_.add(*network.document, "cniVersion",
                     {advice->is_refused ? Severity::kWarning : Severity::kNote,
                      cat(single, advice->is_refused ? ", " : ", but ", advice->what, ": ",
                          advice->why, "; set \"", advice->version, "\"")});
  }

  void look_at_file(const std::string& file) {
    if (Document* const document = read(file)) look_at_document(*document, form_of(file), file);
  }

  void look_at_document(Document& document, Form form, const std::string& file) {
    if (is_pools(document)) {
      check_pools(document, {path_, env_, plugins_}, diagnostics_);
    } else {
      look_at_network(document, form, file);
    }
  }

  void look_at_directory(const std::string& dir) {
    std::error_code error;
    std::vector<std::string> files = files_in(dir, {".conflist"}, error);
    for (const std::string& file : files_in(dir, {".conf", ".json"}, error)) files.push_back(file);
    for (const std::string& file : files) look_at_file(file);
    names_.push_back(dir);
    const std::vector<std::string> unread = unread_files(dir);
    if (!unread.empty()) {
      diagnostics_.add(dir, {Severity::kNote, cat("not read, because only files *.conflist, "
                                                  "*.conf and *.json are: ",
                                                  joined(unread))});
    }
    if (!files.empty() && !error) return;
    if (error) return diagnostics_.add(dir, {.what = error.message()});
    diagnostics_.add(dir,
                     {Severity::kWarning, "no networks: no *.conflist, *.conf or *.json in it"});
  }

  const std::string path_;
  const cni::Env& env_;
  Plugins plugins_;
  std::optional<std::vector<NodeRuntime>> runtimes_;
  Diagnostics diagnostics_;
  std::list<Document> documents_;
  std::list<NetworkText> networks_;
  std::vector<std::string> names_;  // in the order in which they are looked at
};

}  // namespace

std::vector<std::string> unread_files(const std::string& dir) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::string ending = it->path().extension().string();
    const bool is_read = ending == ".conflist" || ending == ".conf" || ending == ".json";
    const std::string name = it->path().filename().string();
    std::error_code unknown;
    if (is_read && it->is_directory(unknown)) out.push_back(name + "/");
    if (!ending.empty() && !is_read && it->is_regular_file(unknown)) out.push_back(name);
  }
  std::ranges::sort(out);
  return out;
}

bool validate(const Validation& asked, const Settings& settings, const cni::Env& env,
              const Output& output) {
  Validator validator(settings, env);
  for (const std::string& file : asked.files) validator.look_at(file);
  const Diagnostics& diagnostics = validator.finish(asked.one_pod);
  print(diagnostics, output);
  const std::size_t errors = diagnostics.count(Severity::kError);
  const std::size_t warnings = diagnostics.count(Severity::kWarning);
  if (!output.json) {
    output.out << cat(counted(validator.files(), "file"), ": ", counted(errors, "error"), ", ",
                      counted(warnings, "warning"), "\n");
  }
  return errors == 0 && (!asked.strict || warnings == 0);
}

}  // namespace tool

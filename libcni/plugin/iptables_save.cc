#include "libcni/plugin/iptables_save.h"

#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "libcni/plugin/node_tool.h"

namespace cni {

namespace {

// The words of the next line; `text` is left with the lines behind it.
Words take_line(std::string_view& text) {
  Words out;
  bool quoted = false;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '\n' && !quoted) {
      text.remove_prefix(at + 1);
      return out;
    }
    if (c == ' ' && !quoted) {
      in_word = false;
      continue;
    }
    if (!in_word) out.emplace_back();
    in_word = true;
    if (c == '"') {
      quoted = !quoted;
      continue;
    }
    if (c == '\\' && at + 1 < text.size()) c = text[++at];
    out.back() += c;
  }
  text = {};
  return out;
}

}  // namespace

// The plain names are links to a binary for one of the two: xtables-nft-multi, or
// xtables-legacy-multi (xtables-multi before there were two).
XtablesVariant variant_of(const std::string& file) {
  char real[PATH_MAX];
  if (::realpath(file.c_str(), real) == nullptr) return XtablesVariant::kNft;
  const std::string_view name = std::strrchr(real, '/');
  const bool legacy = name.find("legacy") != std::string_view::npos || name == "/xtables-multi";
  return legacy ? XtablesVariant::kLegacy : XtablesVariant::kNft;
}

std::optional<std::string> find_iptables(netlink::Family family, XtablesVariant variant,
                                         std::string_view what) {
  const std::string name = family == netlink::Family::kIpv4 ? "iptables-" : "ip6tables-";
  const char* const kind = variant == XtablesVariant::kNft ? "nft-" : "legacy-";
  if (auto file = find_node_tool(cat(name, kind, what))) return file;
  auto plain = find_node_tool(cat(name, what));
  return plain && variant_of(*plain) == variant ? plain : std::nullopt;
}

Words words_of(std::string_view rule) { return take_line(rule); }

SavedTable decode_saved(std::string_view text) {
  SavedTable out;
  while (!text.empty()) {
    Words words = take_line(text);
    if (words.size() < 2) continue;
    if (words[0].starts_with(':')) {
      out.chains[words[0].substr(1)] = words[1];
    } else if (words[0] == "-A") {
      std::string chain = std::move(words[1]);
      words.erase(words.begin(), words.begin() + 2);
      out.rules.push_back({std::move(chain), std::move(words)});
    }
  }
  return out;
}

std::optional<SavedTable> read_saved(netlink::Family family, XtablesVariant variant,
                                     const std::string& table) {
  const auto file = find_iptables(family, variant, "save");
  if (!file) return std::nullopt;
  const Outcome outcome = run_node_tool(*file, {"-t", table}, {});
  if (!outcome.ok()) throw tool_error(Code::kInternal, *file, outcome);
  return decode_saved(outcome.out);
}

}  // namespace cni

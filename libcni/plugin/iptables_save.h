#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/types/ip.h"

/// The rules of iptables, as iptables-save prints them.
namespace cni {

/// The two iptables, each with tables of its own.
enum class XtablesVariant { kNft, kLegacy };

inline constexpr XtablesVariant kXtablesVariants[] = {XtablesVariant::kNft,
                                                      XtablesVariant::kLegacy};

/// The program of a variant: "iptables-legacy-save", or "iptables-save" where that is of the
/// variant; what is "save" or "restore". Nothing where the node has none.
std::optional<std::string> find_iptables(netlink::Family family, XtablesVariant variant,
                                         std::string_view what);
/// The variant of the program behind a plain name, as /usr/sbin/iptables-restore.
XtablesVariant variant_of(const std::string& file);

using Words = std::vector<std::string>;

/// The words of a rule; quotes and backslashes are removed (xtables_save_string() of libxtables).
Words words_of(std::string_view rule);

struct SavedRule {
  std::string chain;
  Words words;  ///< behind "-A CHAIN"
};

/// One table of one family.
struct SavedTable {
  std::map<std::string, std::string> chains;  ///< the policy of each; "-" where a user made it
  std::vector<SavedRule> rules;               ///< in order
};

/// Decodes iptables-save's output for one table. A line break in a comment begins no rule.
SavedTable decode_saved(std::string_view text);

/// Runs iptables-save for a table ("nat", "filter"); nothing where the node has none of the
/// variant. \throws Error with its message.
std::optional<SavedTable> read_saved(netlink::Family family, XtablesVariant variant,
                                     const std::string& table);

}  // namespace cni

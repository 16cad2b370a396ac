#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "netlink/nf/expr.h"
#include "netlink/nf/nfnetlink.h"
#include "netlink/nf/set.h"
#include "netlink/types/error.h"

/// nf_tables objects, and a transaction of changes to them. linux/netfilter/nf_tables.h.
namespace netlink::nf {

struct Table {
  TableFamily family = TableFamily::kInet;
  std::string name;
  std::string comment = {};
  /// The kernel removes it, with all that is in it, as the socket is closed that has made it, and
  /// lets no other change it (NFT_TABLE_F_OWNER, since Linux 5.12).
  bool is_owned = false;
  bool operator==(const Table&) const = default;
};

/// The hook of a base chain.
struct Hook {
  std::string type;          ///< "nat", "filter"
  std::uint32_t number = 0;  ///< NF_INET_*, NF_BR_*, NF_ARP_*, NF_NETDEV_*
  std::int32_t priority = 0;
  std::optional<std::uint32_t> policy = {};  ///< NF_ACCEPT, NF_DROP; absent: the kernel's, accept
  std::string device = {};                   ///< to make: the link, of family netdev
  bool operator==(const Hook&) const = default;
};

/// The name of a chain.
struct ChainId {
  TableFamily family = TableFamily::kInet;
  std::string table;
  std::string chain;
  bool operator==(const ChainId&) const = default;
  /// "inet filter input".
  std::string str() const;
};

struct Chain {
  ChainId id;
  std::optional<Hook> hook = {};
  std::string comment = {};
  bool operator==(const Chain&) const = default;
};

struct Rule {
  ChainId chain;
  Exprs exprs;
  std::string comment = {};  ///< at most 253 bytes; nft takes 128
  std::uint64_t handle = 0;  ///< 0: not in the kernel yet
  bool first = false;        ///< added before the other rules of the chain, not after them
  bool operator==(const Rule&) const = default;
};

struct FlushChain {
  ChainId id;
};
struct DeleteRule {
  ChainId chain;
  std::uint64_t handle = 0;
};
/// Refused by the kernel (EBUSY) while a rule jumps there.
struct DeleteChain {
  ChainId id;
};

/// With all that is in it.
struct DeleteTable {
  TableFamily family = TableFamily::kInet;
  std::string name;
};

using Change = std::variant<Table, Chain, Rule, FlushChain, DeleteRule, DeleteChain, DeleteTable,
                            Set, DeleteSet, AddElements, DeleteElements>;

/// The messages that ask for the change: one, but for long lists of elements, or empty ones.
/// number is the change's own in its batch, from 1.
std::vector<Message> encode(const Change& change, std::uint32_t number = 1);
/// "add rule 'inet filter input'": for errors.
std::string describe(const Change& change);
/// How to get the module that the kernel may lack for the change, by its errno; empty: unknown.
std::string module_hint(const Change& change, int error);
/// The kernel's refusal of the change, with that.
Error refusal_of(const Change& change, int error, const std::string& kernel_text);
/// The lines `nft --debug=netlink` has for a rule, a line in nft's words for the rest.
std::string text(const Change& change);
/// A rule from the attributes of an NFT_MSG_NEWRULE.
Rule decode_rule(TableFamily family, const Attributes& attributes);
/// Whether such a rule has just these expressions: without keeping what is decoded.
bool shows(const Attributes& attributes, const Exprs& exprs);
/// Whether of these rules, as NfSocket::raw_table_rules() gives them, those of the chain are just
/// wanted, in order.
bool shows_chain(const std::vector<Bytes>& rules, std::string_view chain,
                 const std::vector<Exprs>& wanted);
/// A chain from the attributes of an NFT_MSG_NEWCHAIN, without its comment.
Chain decode_chain(TableFamily family, const Attributes& attributes);
/// Its comment alone.
std::string rule_comment(const Attributes& attributes);

/// A transaction: built without a kernel, then sent whole by NfSocket::commit(), or not at all.
/// Adding a table, chain or set that is there is no error, unless it differs where it cannot be
/// changed; a rule is always added once more, at the end or first.
class Batch {
 public:
  Batch& add(Table table) { return push(std::move(table)); }
  Batch& add(Chain chain) { return push(std::move(chain)); }
  Batch& add(Rule rule) { return push(std::move(rule)); }
  Batch& add(Set set) { return push(std::move(set)); }
  /// A key that is there must have the same data; see AddElements.
  Batch& add(SetId set, std::vector<Element> elements) {
    return push(AddElements{std::move(set), std::move(elements)});
  }
  /// A key that is there is an error (EEXIST).
  Batch& add_new(SetId set, std::vector<Element> elements) {
    return push(AddElements{std::move(set), std::move(elements), true});
  }
  /// Removes all rules of a chain; a chain that is not there is an error, as for those below.
  Batch& flush(ChainId chain) { return push(FlushChain{std::move(chain)}); }
  Batch& remove(const Rule& seen) { return push(DeleteRule{seen.chain, seen.handle}); }
  Batch& remove(ChainId chain) { return push(DeleteChain{std::move(chain)}); }
  Batch& remove(SetId set, std::vector<Bytes> keys) {
    return push(DeleteElements{std::move(set), std::move(keys)});
  }
  Batch& remove(SetId set) { return push(DeleteSet{std::move(set)}); }
  Batch& remove(DeleteTable table) { return push(std::move(table)); }

  bool empty() const { return changes_.empty(); }
  const std::vector<Change>& changes() const { return changes_; }
  /// text() of every change; what unit tests compare.
  std::string dump() const;

 private:
  Batch& push(Change change) {
    changes_.push_back(std::move(change));
    return *this;
  }
  std::vector<Change> changes_;
};

}  // namespace netlink::nf

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/channel.h"
#include "netlink/nf/batch.h"

namespace netlink::nf {

/// For errors: nf_tables, or its NAT, is missing.
inline constexpr const char* kNoNfTables =
    "the kernel has no nf_tables (modprobe nf_tables, CONFIG_NF_TABLES)";
inline constexpr const char* kNoNat =
    "the kernel has no NAT for nf_tables (modprobe nft_chain_nat, CONFIG_NFT_NAT)";

/// A NETLINK_NETFILTER socket in the network namespace that the thread is in when it is opened.
/// After a commit that removed something, closing it would take about 10 ms, in which the kernel
/// waits for its deferred destruction: it is left to the kernel (see Channel::close_later()). Where
/// the kernel is too old for that, the socket should be closed after other waiting work (the
/// removal of a link), so that the two waits are one.
class NfSocket {
 public:
  /// \throws Error.
  NfSocket();
  /// Empty: the kernel has no nfnetlink.
  static std::optional<NfSocket> find();

  /// Makes all changes, or none. A clash with another writer is tried again.
  /// \throws Error naming the change that was refused and the kernel's reason.
  void commit(const Batch& batch);
  /// Commits what plan, which may ask this socket, puts into the batch. Where what it saw is gone
  /// by then (ENOENT) or is used by another (EBUSY), it plans anew, a few times.
  void commit_planned(const std::function<void(Batch&)>& plan);
  /// Whether the kernel would take the changes; nothing is changed. Not cheap (about 10 ms).
  bool accepts(const Batch& batch);

  /// Whether the kernel has nf_tables.
  bool has_nf_tables() { return generation() != 0; }
  /// False also where the kernel has no nf_tables.
  bool has_chain(const ChainId& chain) { return has_chains({chain}).front(); }
  /// The same for each of several, in one exchange with the kernel.
  std::vector<bool> has_chains(const std::vector<ChainId>& chains);
  /// The number of rules of each chain plus the verdicts that lead to it (NFTA_CHAIN_USE); empty:
  /// the chain does not exist.
  std::vector<std::optional<std::uint32_t>> uses_of(const std::vector<ChainId>& chains);
  bool has_table(TableFamily family, std::string_view table);
  /// The names of all tables of a family.
  std::vector<std::string> tables(TableFamily family);
  /// All chains of a family, without their comments.
  std::vector<Chain> chains(TableFamily family);
  /// Selects rules of a chain.
  struct Filter {
    std::string_view comment_start = {};  ///< empty: all
    /// One of these is somewhere in what the kernel says of the rule, as an address it compares
    /// with; empty: all. It may be there by chance, too.
    std::vector<Bytes> mentions = {};
  };
  /// In order; none where the chain, the table or nf_tables is missing.
  /// \throws Error, with EAGAIN where the rules kept changing while they were read.
  std::vector<Rule> rules(const ChainId& chain, const Filter& filter);
  std::vector<Rule> rules(const ChainId& chain) { return rules(chain, Filter()); }
  /// The first of them, as many as the kernel puts into one answer: for a long chain. The time it
  /// takes does not depend on its length.
  static std::vector<Rule> first_rules(const ChainId& chain);
  /// Those of these handles, in their order; nothing for one that does not exist. The time it takes
  /// hardly depends on the length of the chain.
  std::vector<std::optional<Rule>> rules_at(const ChainId& chain,
                                            const std::vector<std::uint64_t>& handles);
  /// The rules of all chains of a table, those of a chain in order. As rules() for the rest.
  std::vector<Rule> table_rules(TableFamily family, std::string_view table);
  /// The same as they were received: the attributes of each, for shows() and decode_rule().
  std::vector<Bytes> raw_table_rules(TableFamily family, std::string_view table);

  /// One element per key, in the order of the keys; nothing where the element, the set, the table
  /// or nf_tables is missing. The time it takes does not depend on the size of the set.
  std::vector<std::optional<Element>> elements(const SetId& set, const std::vector<Bytes>& keys);
  /// In no order; none where the set, the table or nf_tables is missing. Otherwise as rules().
  std::vector<Element> all_elements(const SetId& set);

  /// For objects with functions of their own (conntrack.h). The request has NLM_F_DUMP or
  /// NLM_F_ACK; on_message runs for each answer but the last, which says that there are no more.
  /// True where the kernel says that it changed its mind in between. \throws Error.
  bool dump(Message request, const std::string& operation,
            const std::function<void(const Attributes&)>& on_message);

 private:
  struct Refusal {
    int error = 0;
    std::string kernel_text;
    std::size_t change = 0;  ///< an index; past the last: the batch as a whole
  };
  enum class Ending { kCommit, kAbort };

  std::optional<Refusal> send(const Batch& batch, Ending ending);
  /// owners: the index of its change for each message of the batch.
  std::optional<Refusal> collect(std::uint32_t first, const std::vector<std::size_t>& owners);
  void transmit(std::vector<std::uint8_t>& bytes, const std::string& operation);
  bool finds(Message request, const std::string& operation);
  /// Sends requests that have one answer each, an object or that it is not there, and hands over
  /// the objects with the index of their request.
  void ask(std::vector<Message> requests, const std::string& operation,
           const std::function<void(std::size_t, const Attributes&)>& on_answer);
  /// Counts the commits of all writers; 0 without nf_tables.
  std::uint32_t generation();
  /// The same, after the end of each commit that it counts.
  std::uint32_t settled_generation();
  struct Listing;
  /// Dumps until nothing changed meanwhile, a few times.
  void list(const Listing& listing);

  Channel channel_;
  std::uint32_t sequence_ = 0;
};

}  // namespace netlink::nf

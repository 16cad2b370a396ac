#include "netlink/nf/socket.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "netlink/ack.h"
#include "netlink/types/error.h"

namespace netlink::nf {

namespace {

constexpr int kMaxCommits = 10;
constexpr int kMaxDumps = 20;
constexpr int kMaxPlans = 5;
constexpr int kGrowing = 5;  // milliseconds

// "try again" in the kernel's words: a signal, a module just loaded, another writer's commit.
bool worth_retrying(int error) {
  constexpr int kRestart = 85;  // ERESTART; errno.h of the C library shares the number
  return error == EINTR || error == EAGAIN || error == kRestart;
}

// The errno for a missing nf_tables object, or for a kernel without nf_tables.
bool means_nothing_there(int error) {
  return error == ENOENT || error == EINVAL || error == EOPNOTSUPP || error == EPROTONOSUPPORT ||
         error == EAFNOSUPPORT;
}

void pause_ms(long milliseconds) {
  const timespec length{0, milliseconds * 1'000'000};
  ::nanosleep(&length, nullptr);
}

void append(std::vector<std::uint8_t>& out, Message message, std::uint32_t sequence) {
  message.set_sequence(sequence);
  const View bytes = message.bytes();
  out.insert(out.end(), bytes.begin(), bytes.end());
}

bool removes(const Batch& batch) {
  return std::ranges::any_of(batch.changes(), [](const Change& change) {
    return !std::holds_alternative<Table>(change) && !std::holds_alternative<Chain>(change) &&
           !std::holds_alternative<Rule>(change) && !std::holds_alternative<Set>(change) &&
           !std::holds_alternative<AddElements>(change);
  });
}

Message rules_of(const ChainId& chain) {
  Message out = nf_tables_message(NFT_MSG_GETRULE, NLM_F_DUMP, chain.family);
  out.put(NFTA_RULE_TABLE, chain.table);
  out.put(NFTA_RULE_CHAIN, chain.chain);
  return out;
}

bool mentions_any(const Attributes& rule, const std::vector<Bytes>& wanted) {
  const View all = rule.bytes();
  return std::ranges::any_of(wanted, [&](const Bytes& one) {
    return ::memmem(all.data(), all.size(), one.data(), one.size()) != nullptr;
  });
}

// While the kernel makes room for thousands of new elements, a dump goes on in another order than
// it began (nft_rhash_walk() counts). What is left out then has something else come twice.
bool any_twice(const std::vector<Element>& elements) {
  std::vector<std::reference_wrapper<const Element>> sorted(elements.begin(), elements.end());
  // GCC 12 warns of its own library where this is a plain <.
  const auto precedes = [](const Element& a, const Element& b) {
    if (a.ends_interval != b.ends_interval) return b.ends_interval;
    return std::lexicographical_compare(a.key.begin(), a.key.end(), b.key.begin(), b.key.end());
  };
  std::ranges::sort(sorted, precedes);
  return std::ranges::adjacent_find(sorted, std::not_fn(precedes)) != sorted.end();
}

}  // namespace

NfSocket::NfSocket() : channel_(NETLINK_NETFILTER) {}

std::optional<NfSocket> NfSocket::find() try { return NfSocket(); } catch (const Error& e) {
  if (e.error() == EPROTONOSUPPORT || e.error() == EAFNOSUPPORT) return std::nullopt;
  throw;
}

void NfSocket::transmit(std::vector<std::uint8_t>& bytes, const std::string& operation) {
  channel_.send({{bytes.data(), bytes.size()}}, operation);
}

void NfSocket::commit(const Batch& batch) {
  if (batch.empty()) return;
  for (int attempt = 1;; ++attempt) {
    const auto refusal = send(batch, Ending::kCommit);
    if (!refusal) {
      if (removes(batch)) channel_.close_later();
      return;
    }
    if (worth_retrying(refusal->error) && attempt < kMaxCommits) {
      pause_ms(attempt);
      continue;
    }
    const bool whole = refusal->change >= batch.changes().size();
    if (whole) throw Error("commit to nf_tables", refusal->error, refusal->kernel_text);
    throw refusal_of(batch.changes()[refusal->change], refusal->error, refusal->kernel_text);
  }
}

void NfSocket::commit_planned(const std::function<void(Batch&)>& plan) {
  for (int attempt = 1;; ++attempt) {
    Batch batch;
    plan(batch);
    try {
      return commit(batch);
    } catch (const Error& e) {
      const bool lost_a_race = e.error() == ENOENT || e.error() == EBUSY;
      if (!lost_a_race || attempt == kMaxPlans) throw;
    }
  }
}

bool NfSocket::accepts(const Batch& batch) { return batch.empty() || !send(batch, Ending::kAbort); }

// A batch without its end is checked and taken back: nfnetlink_rcv_batch() in the kernel.
std::optional<NfSocket::Refusal> NfSocket::send(const Batch& batch, Ending ending) {
  std::vector<Message> messages;
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < batch.changes().size(); ++i) {
    for (Message& message : encode(batch.changes()[i], static_cast<std::uint32_t>(i + 1))) {
      messages.push_back(std::move(message));
      owners.push_back(i);
    }
  }
  if (messages.empty()) return {};
  // Refusals come for every message, asked for or not; successes need saying only once, and
  // hundreds of them would not fit into the receive buffer.
  messages.back().add_flags(NLM_F_ACK);
  std::vector<std::uint8_t> bytes;
  const std::uint32_t first = sequence_ + 1;
  append(bytes, batch_boundary(NFNL_MSG_BATCH_BEGIN), ++sequence_);
  for (Message& message : messages) append(bytes, std::move(message), ++sequence_);
  if (ending == Ending::kCommit) append(bytes, batch_boundary(NFNL_MSG_BATCH_END), ++sequence_);
  transmit(bytes, "commit to nf_tables");
  return collect(first, owners);
}

// `first` is the number of the batch's beginning, to which the kernel replies about the whole.
std::optional<NfSocket::Refusal> NfSocket::collect(std::uint32_t first,
                                                   const std::vector<std::size_t>& owners) {
  std::optional<Refusal> refusal;
  for (;;) {
    for (const Reply& reply : Replies{channel_.receive("commit to nf_tables")}) {
      const auto ack = decode_ack(reply);
      if (!ack || ack->sequence - first > owners.size() + 1) continue;  // of an earlier batch
      const std::size_t index = ack->sequence - first;
      const bool whole = index == 0 || index > owners.size();
      if (ack->error != 0 && !refusal) {
        refusal = Refusal{ack->error, ack->text, whole ? SIZE_MAX : owners[index - 1]};
      }
      if (whole || index == owners.size()) return refusal;
    }
  }
}

bool NfSocket::dump(Message request, const std::string& operation,
                    const std::function<void(const Attributes&)>& on_message) {
  const std::uint32_t sequence = ++sequence_;
  request.set_sequence(sequence);
  channel_.send(request, operation);
  bool interrupted = false;
  for (;;) {
    for (const Reply& reply : Replies{channel_.receive(operation)}) {
      if (reply.sequence() != sequence) continue;
      interrupted = interrupted || (reply.flags() & NLM_F_DUMP_INTR) != 0;
      if (const auto ack = decode_ack(reply)) {
        if (ack->error != 0) throw Error(operation, ack->error, ack->text);
        return interrupted;
      }
      on_message(attributes_of(reply));
    }
  }
}

bool NfSocket::finds(Message request, const std::string& operation) {
  std::vector<Message> one;
  one.push_back(std::move(request));
  bool found = false;
  ask(std::move(one), operation, [&](std::size_t, const Attributes&) { found = true; });
  return found;
}

std::vector<bool> NfSocket::has_chains(const std::vector<ChainId>& chains) {
  std::vector<bool> found;
  for (const auto& uses : uses_of(chains)) found.push_back(uses.has_value());
  return found;
}

std::vector<std::optional<std::uint32_t>> NfSocket::uses_of(const std::vector<ChainId>& chains) {
  std::vector<Message> requests;
  for (const ChainId& chain : chains) {
    Message& request = requests.emplace_back(nf_tables_message(NFT_MSG_GETCHAIN, 0, chain.family));
    request.put(NFTA_CHAIN_TABLE, chain.table);
    request.put(NFTA_CHAIN_NAME, chain.chain);
  }
  std::vector<std::optional<std::uint32_t>> found(chains.size());
  ask(std::move(requests), cat("find chain '", chains.front().str(), "'"),
      [&](std::size_t index, const Attributes& chain) {
        found[index] = chain.be32(NFTA_CHAIN_USE);
      });
  return found;
}

bool NfSocket::has_table(TableFamily family, std::string_view table) {
  Message request = nf_tables_message(NFT_MSG_GETTABLE, 0, family);
  request.put(NFTA_TABLE_NAME, table);
  return finds(std::move(request), cat("find table '", name_of(family), " ", table, "'"));
}

struct NfSocket::Listing {
  std::string operation;
  const Message& request;
  std::function<void()> start_over;
  std::function<void(const Attributes&)> on_message;
  std::function<bool(bool interrupted)> will_do = [](bool interrupted) { return !interrupted; };
};

void NfSocket::list(const Listing& listing) {
  for (int attempt = 1; attempt <= kMaxDumps; ++attempt) {
    listing.start_over();
    try {
      const bool interrupted = dump(listing.request, listing.operation, listing.on_message);
      if (listing.will_do(interrupted)) return;
    } catch (const Error& e) {
      if (means_nothing_there(e.error())) return listing.start_over();
      if (!worth_retrying(e.error())) throw;
    }
  }
  throw Error(listing.operation, EAGAIN, "they kept changing while they were read");
}

std::vector<std::string> NfSocket::tables(TableFamily family) {
  std::vector<std::string> found;
  const Message request = nf_tables_message(NFT_MSG_GETTABLE, NLM_F_DUMP, family);
  const auto keep = [&](const Attributes& table) { found.push_back(table.text(NFTA_TABLE_NAME)); };
  list({cat("list tables '", name_of(family), "'"), request, [&] { found.clear(); }, keep});
  return found;
}

std::vector<Chain> NfSocket::chains(TableFamily family) {
  std::vector<Chain> found;
  const Message request = nf_tables_message(NFT_MSG_GETCHAIN, NLM_F_DUMP, family);
  const auto keep = [&](const Attributes& chain) { found.push_back(decode_chain(family, chain)); };
  list({cat("list chains '", name_of(family), "'"), request, [&] { found.clear(); }, keep});
  return found;
}

// Uses a socket of its own, which is closed with the dump half done.
std::vector<Rule> NfSocket::first_rules(const ChainId& chain) {
  NfSocket own;
  const std::string operation = cat("list rules '", chain.str(), "'");
  own.channel_.send(rules_of(chain), operation);
  std::vector<Rule> found;
  for (const Reply& reply : Replies{own.channel_.receive(operation)}) {
    const auto ack = decode_ack(reply);
    if (ack && ack->error != 0 && !means_nothing_there(ack->error)) {
      throw Error(operation, ack->error, ack->text);
    }
    if (ack) return found;
    Rule one = decode_rule(chain.family, attributes_of(reply));
    if (one.chain == chain) found.push_back(std::move(one));
  }
  return found;
}

std::vector<Rule> NfSocket::rules(const ChainId& chain, const Filter& filter) {
  std::vector<Rule> found;
  const Message request = rules_of(chain);
  const auto keep = [&](const Attributes& rule) {
    // Decoding all of every rule would double the time for a long chain.
    const auto& start = filter.comment_start;
    if (!start.empty() && !rule_comment(rule).starts_with(start)) return;
    if (!filter.mentions.empty() && !mentions_any(rule, filter.mentions)) return;
    Rule one = decode_rule(chain.family, rule);
    if (one.chain == chain) found.push_back(std::move(one));
  };
  list({cat("list rules '", chain.str(), "'"), request, [&] { found.clear(); }, keep});
  return found;
}

std::vector<Rule> NfSocket::table_rules(TableFamily family, std::string_view table) {
  std::vector<Rule> found;
  for (const Bytes& rule : raw_table_rules(family, table)) {
    found.push_back(decode_rule(family, Attributes(rule)));
  }
  return found;
}

std::vector<Bytes> NfSocket::raw_table_rules(TableFamily family, std::string_view table) {
  std::vector<Bytes> found;
  Message request = nf_tables_message(NFT_MSG_GETRULE, NLM_F_DUMP, family);
  request.put(NFTA_RULE_TABLE, table);
  const auto keep = [&](const Attributes& rule) {
    if (rule.find(NFTA_RULE_TABLE).text() != table) return;
    found.emplace_back(rule.bytes().begin(), rule.bytes().end());
  };
  list({cat("list rules '", name_of(family), " ", table, "'"), request, [&] { found.clear(); },
        keep});
  return found;
}

std::uint32_t NfSocket::generation() {
  std::vector<Message> request;
  request.push_back(nf_tables_message(NFT_MSG_GETGEN, 0, TableFamily::kUnspec));
  std::uint32_t out = 0;
  ask(std::move(request), "get the generation of nf_tables",
      [&](std::size_t, const Attributes& answer) { out = answer.be32(NFTA_GEN_ID); });
  return out;
}

// nf_tables_commit() counts a generation, then takes the elements out one by one. A dump that
// begins in between is not marked as interrupted; from its second message on it can miss elements,
// because it continues by their number. An empty batch waits for the mutex of the commit.
std::uint32_t NfSocket::settled_generation() {
  const std::uint32_t out = generation();
  std::vector<std::uint8_t> bytes;
  append(bytes, batch_boundary(NFNL_MSG_BATCH_BEGIN), ++sequence_);
  append(bytes, batch_boundary(NFNL_MSG_BATCH_END), ++sequence_);
  transmit(bytes, "wait for commits to nf_tables");
  return out;
}

std::vector<Element> NfSocket::all_elements(const SetId& set) {
  std::vector<Element> found;
  std::size_t messages = 0;
  const auto start = [&] {
    found.clear();
    messages = 0;
  };
  const auto keep = [&](const Attributes& attributes) {
    ++messages;
    std::vector<Element> more = decode_elements(attributes);
    std::ranges::move(more, std::back_inserter(found));
  };
  const Message request = encode_query(set, std::nullopt);
  std::uint32_t before = settled_generation();
  const auto is_whole = [&](bool interrupted) {
    const bool ordered = !interrupted && !any_twice(found);
    if (ordered && (messages <= 1 || generation() == before)) return true;
    pause_ms(kGrowing);
    before = settled_generation();
    return false;
  };
  list({cat("list elements '", set.str(), "'"), request, start, keep, is_whole});
  return found;
}

std::vector<std::optional<Element>> NfSocket::elements(const SetId& set,
                                                       const std::vector<Bytes>& keys) {
  constexpr std::size_t kAtOnce = 16;  // so that the answers fit into the receive buffer
  const std::string operation = cat("find elements '", set.str(), "'");
  std::vector<std::optional<Element>> found(keys.size());
  for (std::size_t start = 0; start < keys.size(); start += kAtOnce) {
    std::vector<Message> requests;
    for (std::size_t i = start; i < std::min(start + kAtOnce, keys.size()); ++i) {
      requests.push_back(encode_query(set, keys[i]));
    }
    ask(std::move(requests), operation, [&](std::size_t index, const Attributes& answer) {
      auto element = decode_elements(answer);
      if (!element.empty()) found[start + index] = std::move(element.front());
    });
  }
  return found;
}

void NfSocket::ask(std::vector<Message> requests, const std::string& operation,
                   const std::function<void(std::size_t, const Attributes&)>& on_answer) {
  const std::uint32_t first = sequence_ + 1;
  std::vector<std::uint8_t> bytes;
  for (Message& request : requests) append(bytes, std::move(request), ++sequence_);
  transmit(bytes, operation);
  for (std::size_t answered = 0; answered < requests.size();) {
    for (const Reply& reply : Replies{channel_.receive(operation)}) {
      const std::size_t index = reply.sequence() - first;
      if (index >= requests.size()) continue;
      ++answered;
      if (const auto ack = decode_ack(reply)) {
        if (!means_nothing_there(ack->error)) throw Error(operation, ack->error, ack->text);
      } else {
        on_answer(index, attributes_of(reply));
      }
    }
  }
}

}  // namespace netlink::nf

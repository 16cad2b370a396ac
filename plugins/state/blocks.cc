#include "plugins/state/blocks.h"

#include <algorithm>
#include <set>

#include "libcni/common/error.h"
#include "plugins/state/fields.h"

namespace plugins {

template <>
inline constexpr auto kFields<blocks::Range> = std::tuple{
    Field{"subnet", &blocks::Range::subnet},   Field{"rangeStart", &blocks::Range::start},
    Field{"rangeEnd", &blocks::Range::end},    Field{"gateway", &blocks::Range::gateway},
    Field{"exclude", &blocks::Range::exclude}, Field{"blockSize", &blocks::Range::block_size}};
template <>
inline constexpr auto kFields<blocks::Pool> =
    std::tuple{Field{"ranges", &blocks::Pool::sets}, Field{"dataDir", &blocks::Pool::data_dir}};
template <>
inline constexpr auto kFields<blocks::Block> =
    std::tuple{Field{"cidr", &blocks::Block::cidr}, Field{"claim", &blocks::Block::claim},
               Field{"state", &blocks::Block::state}, Field{"holder", &blocks::Block::holder}};
template <>
inline constexpr auto kFields<blocks::Held> =
    std::tuple{Field{"network", &blocks::Held::network}, Field{"node", &blocks::Held::node},
               Field{"pool", &blocks::Held::pool},       Field{"blocks", &blocks::Held::blocks},
               Field{"note", &blocks::Held::note},       Field{"noted", &blocks::Held::noted}};
template <>
inline constexpr auto kFields<blocks::Nodes::Node> = std::tuple{
    Field{"node", &blocks::Nodes::Node::name}, Field{"blocks", &blocks::Nodes::Node::blocks}};
template <>
inline constexpr auto kFields<blocks::Nodes> =
    std::tuple{Field{"at", &blocks::Nodes::at}, Field{"nodes", &blocks::Nodes::nodes}};
template <>
inline constexpr auto kFields<blocks::Want::Short> = std::tuple{
    Field{"set", &blocks::Want::Short::set}, Field{"blocks", &blocks::Want::Short::blocks}};
template <>
inline constexpr auto kFields<blocks::Want> =
    std::tuple{Field{"network", &blocks::Want::network}, Field{"pool", &blocks::Want::pool},
               Field{"fixed", &blocks::Want::fixed}, Field{"full", &blocks::Want::sets},
               Field{"since", &blocks::Want::since}};

}  // namespace plugins

namespace blocks {

namespace {

using cni::cat;

constexpr std::string_view kHeldEnd = ".json", kNodesEnd = ".nodes", kWantEnd = ".want";
constexpr const char* kLock = ".lock";
constexpr std::size_t kMaxFixed = 256;  // of a want: each is one ADD's

std::string aside_of(const std::string& name) { return cat(".", name, ".new"); }

template <class T>
std::optional<T> read_file(const cni::Dir& dir, const std::string& name) {
  const auto file = dir.read(name);
  if (!file) return std::nullopt;
  return cni::during(cat("read '", dir.path(), "/", name, "'"),
                     [&] { return T::from(file->content); });
}

// Of another network it is a copy, or was renamed by hand: its blocks are claimed for that one.
template <class T>
std::optional<T> of_network(std::optional<T> state, const cni::Dir& dir, const std::string& name,
                            const std::string& network) {
  if (!state || state->network == network) return state;
  throw cni::Error(cni::Code::kInternal,
                   cat("read '", dir.path(), "/", name, "': it is of network '", state->network,
                       "': remove it, blocks of one network are no other's"));
}

template <class T>
std::optional<T> with_sound_pool(std::optional<T> state) {
  if (state && !state->pool.is_sound()) plugins::refuse_content("pool: expected ranges");
  return state;
}

// Adds what is not there yet, up to a number of them.
void add_fixed(Want& want, const std::vector<netlink::Ip>& more) {
  for (const netlink::Ip& ip : more) {
    const bool is_there = std::ranges::find(want.fixed, ip) != want.fixed.end();
    if (!is_there && want.fixed.size() < kMaxFixed) want.fixed.push_back(ip);
  }
}

void add_sets(Want& want, const std::vector<Want::Short>& more) {
  for (const Want::Short& one : more) {
    const auto there = std::ranges::find(want.sets, one.set, &Want::Short::set);
    if (there == want.sets.end()) {
      want.sets.push_back(one);
    } else {
      there->blocks = one.blocks;
    }
  }
}

// What is wanted of the pool by now.
Want merged(const std::optional<Want>& earlier, const Want& want) {
  if (!earlier || earlier->pool != want.pool) {
    Want out = want;
    if (out.fixed.size() > kMaxFixed) out.fixed.resize(kMaxFixed);
    return out;
  }
  Want out = *earlier;
  add_fixed(out, want.fixed);
  add_sets(out, want.sets);
  return out;
}

}  // namespace

std::string State::str() const {
  constexpr const char* kTexts[] = {"held", "returning", "lost"};
  return kTexts[value_];
}

std::optional<State> State::parse(std::string_view text) {
  for (const State one : {State(kHeld), State(kReturning), State(kLost)}) {
    if (one.str() == text) return one;
  }
  return std::nullopt;
}

std::string Held::text() const { return plugins::json_text(*this); }
std::optional<Held> Held::from(const std::string& text) {
  return with_sound_pool(plugins::from_json_text<Held>(text));
}

bool is_node(const std::string& holder) { return holder.find(' ') == std::string::npos; }
std::string holder_text(const std::string& holder) {
  return is_node(holder) ? cni::cat("node '", holder, "'") : holder;
}

std::string Nodes::node_with(const netlink::Ip& ip) const {
  for (const Node& node : nodes) {
    const auto has = [&](const netlink::Cidr& block) { return block.contains(ip); };
    if (std::ranges::any_of(node.blocks, has)) return node.name;
  }
  return {};
}
std::string Nodes::text() const { return plugins::json_text(*this); }
std::optional<Nodes> Nodes::from(const std::string& text) {
  return plugins::from_json_text<Nodes>(text);
}

std::string Want::text() const { return plugins::json_text(*this); }
std::optional<Want> Want::from(const std::string& text) {
  return with_sound_pool(plugins::from_json_text<Want>(text));
}

std::optional<Folder> Folder::find(const std::string& path) {
  auto dir = cni::Dir::open(path);
  if (!dir) return std::nullopt;
  return Folder(std::move(*dir));
}

Folder Folder::create(const std::string& path) { return Folder(cni::Dir::create(path)); }

std::vector<std::string> Folder::networks() const {
  std::set<std::string> out;
  for (const std::string& name : dir_.names()) {
    if (name.starts_with('.')) continue;
    for (const std::string_view end : {kHeldEnd, kNodesEnd, kWantEnd}) {
      if (name.ends_with(end)) out.insert(name.substr(0, name.size() - end.size()));
    }
  }
  return {out.begin(), out.end()};
}

bool Folder::has_held(const std::string& network) const { return dir_.has(cat(network, kHeldEnd)); }

std::optional<Held> Folder::held(const std::string& network) const {
  const std::string name = cat(network, kHeldEnd);
  return of_network(read_file<Held>(dir_, name), dir_, name, network);
}

std::optional<Nodes> Folder::nodes(const std::string& network) const {
  return read_file<Nodes>(dir_, cat(network, kNodesEnd));
}

std::optional<Want> Folder::want(const std::string& network) const {
  const std::string name = cat(network, kWantEnd);
  return of_network(read_file<Want>(dir_, name), dir_, name, network);
}

void Folder::put(const Held& held) const {
  const std::string name = cat(held.network, kHeldEnd);
  dir_.replace_synced(name, held.text(), aside_of(name));
}

void Folder::put(const std::string& network, const Nodes& nodes) const {
  const std::string name = cat(network, kNodesEnd);
  dir_.replace(name, nodes.text(), aside_of(name));
}

void Folder::remove(const std::string& network) const {
  for (const std::string_view end : {kHeldEnd, kNodesEnd, kWantEnd}) {
    const std::string name = cat(network, end);
    dir_.remove(name);
    dir_.remove(aside_of(name));
  }
}

bool Folder::ask(const Want& want, std::chrono::milliseconds deadline) const {
  // ADD asks again and again while the agent has no more blocks: without the lock then.
  if (const auto there = this->want(want.network); there && merged(there, want) == there)
    return false;
  const auto lock = cni::take_lock(dir_, deadline, kLock);
  const auto earlier = this->want(want.network);
  const Want out = merged(earlier, want);
  if (out == earlier) return false;
  const std::string name = cat(want.network, kWantEnd);
  dir_.replace(name, out.text(), aside_of(name));
  return true;
}

bool Folder::served(const Want& want, std::chrono::milliseconds deadline) const {
  const auto lock = cni::take_lock(dir_, deadline, kLock);
  if (this->want(want.network) != want) return false;
  return dir_.remove(cat(want.network, kWantEnd));
}

}  // namespace blocks

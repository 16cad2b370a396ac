#include "cnitool/blocks.h"

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "cnitool/block_pools.h"
#include "libcni/common/undo.h"
#include "libcni/config/json.h"
#include "libcni/daemon/client.h"
#include "plugins/names/blocks.h"

namespace tool {

namespace {

using nlohmann::ordered_json;

// The agent asks its engine, which may be slow.
constexpr std::chrono::seconds kLimit{60};
constexpr std::size_t kMaxAnswer = 64 * 1024;

bool is_countable(std::uint64_t size) { return size <= 0xffffffff; }

ordered_json number(std::uint64_t size) {
  return is_countable(size) ? ordered_json(size) : ordered_json();
}

ordered_json json_of(const BlockUse& one) {
  ordered_json out{{"cidr", one.block.cidr.str()},
                   {"state", one.block.state.str()},
                   {"used", one.used},
                   {"size", number(one.size)},
                   {"claim", one.block.claim}};
  if (!one.block.holder.empty()) out["holder"] = one.block.holder;
  return out;
}

ordered_json json_of(const blocks::Nodes& seen, std::time_t now) {
  ordered_json nodes = ordered_json::array();
  for (const auto& node : seen.nodes) {
    ordered_json cidrs = ordered_json::array();
    for (const auto& block : node.blocks) cidrs.push_back(block.str());
    nodes.push_back({{"node", node.name}, {"blocks", std::move(cidrs)}});
  }
  return {{"at", seen.at}, {"age", now - seen.at}, {"nodes", std::move(nodes)}};
}

ordered_json json_of(const BlockPool& pool, std::time_t now) {
  ordered_json blocks = ordered_json::array(), outside = ordered_json::array(),
               sets = ordered_json::array();
  const auto counts = pool.counts();
  const BlockPool::Count sum = sum_of(counts);
  for (const BlockPool::Count& one : counts) {
    sets.push_back(
        {{"subnets", one.subnets}, {"claimed", one.claimed}, {"total", number(one.total)}});
  }
  for (const BlockUse& one : pool.blocks) blocks.push_back(json_of(one));
  for (const Reservation& one : pool.outside) outside.push_back(one.ip.str());
  ordered_json out{{"network", pool.network},
                   {"node", pool.held ? ordered_json(pool.held->node) : ordered_json()},
                   {"claimed", sum.claimed},
                   {"total", number(sum.total)},
                   {"sets", std::move(sets)},
                   {"blocks", std::move(blocks)},
                   {"outside", std::move(outside)},
                   {"note", pool.held ? pool.held->note : ""},
                   {"wanted", pool.want.has_value()},
                   {"seen", pool.seen ? json_of(*pool.seen, now) : ordered_json()}};
  if (!pool.failure.empty()) out["failure"] = pool.failure;
  return out;
}

std::vector<Cell> row_of(const BlockPool& pool, const BlockUse& one) {
  const bool is_held = one.block.state == blocks::State::kHeld;
  std::string state = one.block.state.str();
  if (!one.block.holder.empty()) state += cat(" to ", one.block.holder);
  const std::string used = cat(one.used, is_countable(one.size) ? cat("/", one.size) : "");
  return {{pool.network},
          {cat(pool.held->node, " (this)")},
          {one.block.cidr.str()},
          {state, is_held ? Colour::kPlain : Colour::kYellow},
          {used}};
}

void add_rows(const BlockPool& pool, std::vector<std::vector<Cell>>& rows) {
  for (const BlockUse& one : pool.blocks) rows.push_back(row_of(pool, one));
  if (!pool.seen) return;
  for (const auto& node : pool.seen->nodes) {
    if (pool.held && node.name == pool.held->node) continue;
    for (const auto& block : node.blocks) {
      rows.push_back({{pool.network}, {node.name}, {block.str()}, {"held"}, {"-"}});
    }
  }
}

// What the table does not say, a line each.
std::vector<std::string> remarks_of(const BlockPool& pool, std::time_t now) {
  std::vector<std::string> out;
  const std::string network = cat("network '", pool.network, "': ");
  if (!pool.failure.empty()) out.push_back(cat(network, pool.failure));
  if (!pool.has_file) out.push_back(cat(network, "patchbay-agent has written nothing yet"));
  if (pool.seen) {
    out.push_back(cat(network, joined(texts_of(pool.counts())),
                      " have a node, as the agent saw it ", age_text(now - pool.seen->at), " ago"));
  }
  if (pool.held && !pool.held->note.empty()) {
    out.push_back(cat(network, "the agent says: ", pool.held->note));
  }
  if (pool.want) {
    out.push_back(cat(network, "a block is wanted since ", age_text(now - pool.want->since)));
  }
  if (!pool.outside.empty()) {
    out.push_back(cat(network, counted(pool.outside.size(), "lease"),
                      " in no block of this node: ", pool.outside.front().ip.str(),
                      pool.outside.size() == 1 ? "" : " and others"));
  }
  return out;
}

}  // namespace

void print_blocks(const std::string& network, const Output& output) {
  auto all = block_pools();
  if (!network.empty()) {
    std::erase_if(all, [&](const BlockPool& one) { return one.network != network; });
    if (all.empty()) {
      throw cni::Error(cni::Code::kInvalidConfig,
                       cat("nothing is known of blocks of network '", network, "'"),
                       cat("neither cluster-pool nor patchbay-agent has written about it to ",
                           names::kBlocksDir));
    }
  }
  const std::time_t now = std::time(nullptr);
  if (output.json) {
    ordered_json out{{"networks", ordered_json::array()}};
    for (const BlockPool& one : all) out["networks"].push_back(json_of(one, now));
    return output.print(out);
  }
  std::vector<std::vector<Cell>> rows{{}};
  for (const char* heading : {"NETWORK", "NODE", "BLOCK", "STATE", "USED"}) {
    rows[0].push_back({heading, Colour::kBold});
  }
  for (const BlockPool& one : all) add_rows(one, rows);
  print_table(output, rows);
  for (const BlockPool& one : all) {
    for (const std::string& remark : remarks_of(one, now)) cni::note(remark);
  }
}

void release_blocks(const std::string& node, bool is_forced, const Output& output) {
  ordered_json asked{{"verb", "release"}, {"node", node}};
  if (is_forced) asked["force"] = true;
  std::string line;
  try {
    line = cni::exchange_line(names::kBlocksSocket, cat(asked.dump(), "\n"), kLimit, kMaxAnswer);
  } catch (const netlink::Error& e) {
    throw cni::Error(cni::Code::kTryAgainLater, e.what(),
                     cat("patchbay-agent gives blocks back, and is to run on this node with ",
                         names::kBlocksConfig));
  }
  const auto answer = cni::parse_json(line, "the answer of patchbay-agent");
  const cni::Reader root(answer);
  if (const cni::Reader error = root["error"]; error.present()) {
    std::string what = "it says not why", details;
    error.into("msg", what);
    error.into("details", details);
    unsigned code = static_cast<unsigned>(cni::Code::kInternal);
    error.into("code", code, 1, 99999);
    throw cni::Error(static_cast<cni::Code>(code), what, details);
  }
  const std::int64_t count = root["released"].present() ? root["released"].as_int(0, INT64_MAX) : 0;
  if (output.json) return output.print({{"node", node}, {"released", count}});
  output.out << "node '" << node << "' had " << counted(static_cast<std::size_t>(count), "block")
             << ", which any node can claim\n";
}

}  // namespace tool

#include "plugins/devices/agent/blocks.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/config/json.h"
#include "libcni/plugin/manual.h"
#include "netlink/types/fd.h"
#include "plugins/devices/agent/commands.h"
#include "plugins/devices/agent/files.h"
#include "plugins/devices/agent/log.h"

namespace devices {

using cni::cat;

// What serves blocks; empty without their config.
StartBeside blocks_of(const BlockOptions& options) {
  auto conf = block_agent::Conf::find(options.config);
  if (!conf) return {};
  return [conf = std::move(*conf), &options] {
    std::function<void(const std::string&)> metrics;
    if (!options.metrics.empty()) {
      metrics = [&options](const std::string& text) {
        attempt("write metrics", "", [&] { write_metrics(options.metrics, text); });
      };
    }
    return std::make_shared<block_agent::BlockAgent>(conf, options.paths, metrics);
  };
}

namespace {

// What the agent's silence means for pods that start now.
std::string outlook(const nlohmann::json& networks) {
  const auto has_room = [](const nlohmann::json& one) {
    return one.value("leases", std::uint64_t{0}) < one.value("addresses", std::uint64_t{0});
  };
  return std::ranges::any_of(networks, has_room)
             ? "pods start from the blocks that this node has"
             : "no block of this node has a free address, so no pod with cluster-pool starts";
}

}  // namespace

int print_block_status(const std::string& socket) {
  const auto answer = cni::try_parse_json(ask_agent(socket, "{\"verb\": \"status\"}\n"));
  if (!answer.is_object() || !answer.contains("serves")) {
    throw cni::Error(cni::Code::kInternal, cat("ask '", socket, "': an odd answer"));
  }
  const std::string node = answer.value("node", "");
  if (!answer.value("serves", false)) {
    const std::string why = answer.value("why", "");
    std::cout << cat("blocks of node ", node, ": ",
                     why.empty() ? "another agent of this node serves them"
                                 : "nobody serves them, so no block is claimed: ",
                     why, "\n");
    return 0;
  }
  const std::string engine = answer.value("engine", "the engine");
  std::cout << cat("blocks of node ", node, ": ", engine,
                   answer.value("there", false) ? " is there" : " is away");
  if (answer.contains("contact")) {
    std::cout << cat(", last heard ", answer["contact"].dump(), " s ago");
  }
  std::cout << '\n';
  const auto networks = answer.value("networks", nlohmann::json::array());
  for (const auto& one : networks) {
    std::cout << cat(one.value("network", ""), ": ", one["held"].dump(),
                     one["held"] == 1 ? " block, " : " blocks, ", one["leases"].dump(), " of ",
                     one["addresses"].dump(), " addresses used, ", one["lost"].dump(), " lost\n");
  }
  std::cout << std::flush;
  if (!answer.value("why", "").empty()) {
    std::cerr << "patchbay-agent: " << answer.value("why", "") << "; " << outlook(networks) << '\n';
  }
  return 0;
}

int describe_blocks(const Described& what) {
  if (what.schema) {
    std::cout << block_agent::blocks_schema().dump(4) << '\n';
  } else if (what.keys) {
    std::cout << cni::key_table(block_agent::kBlocksManual);
  } else if (what.validate) {
    const auto verdict = block_agent::judge(netlink::read_all(STDIN_FILENO, "stdin"));
    if (!verdict.empty()) std::cout << verdict.dump(4) << '\n';
    return verdict.contains("code") ? 1 : 0;
  } else {
    std::cerr << "patchbay-agent: blocks: --schema, --keys or --validate is missing\n";
    return 2;
  }
  return 0;
}

}  // namespace devices

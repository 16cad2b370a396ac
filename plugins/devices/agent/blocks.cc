#include "plugins/devices/agent/blocks.h"

#include <unistd.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/config/json.h"
#include "libcni/daemon/client.h"
#include "libcni/plugin/manual.h"
#include "netlink/types/fd.h"
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

int print_block_status(const std::string& socket) {
  constexpr std::size_t kMaxAnswer = 1U << 20;
  const auto answer = cni::try_parse_json(
      cni::exchange_line(socket, "{\"verb\": \"status\"}\n", std::chrono::seconds(5), kMaxAnswer));
  if (!answer.is_object() || !answer.contains("serves")) {
    throw cni::Error(cni::Code::kInternal, cat("ask '", socket, "': an odd answer"));
  }
  const std::string node = answer.value("node", "");
  if (!answer.value("serves", false)) {
    std::cout << cat("blocks of node ", node, ": another agent of this node serves them\n");
    return 0;
  }
  const std::string engine = answer.value("engine", "the engine");
  std::cout << cat("blocks of node ", node, ": ", engine,
                   answer.value("there", false) ? " is there" : " is away");
  if (answer.contains("contact")) {
    std::cout << cat(", last heard ", answer["contact"].dump(), " s ago");
  }
  std::cout << '\n';
  for (const auto& one : answer.value("networks", nlohmann::json::array())) {
    std::cout << cat(one.value("network", ""), ": ", one["held"].dump(),
                     one["held"] == 1 ? " block, " : " blocks, ", one["leases"].dump(), " of ",
                     one["addresses"].dump(), " addresses used, ", one["lost"].dump(), " lost\n");
  }
  std::cout << std::flush;
  if (!answer.value("why", "").empty()) {
    std::cerr << "patchbay-agent: " << answer.value("why", "")
              << "; pods start from the blocks that this node has\n";
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

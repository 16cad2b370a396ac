#include "plugins/cluster-pool/agent/metrics.h"

#include "libcni/common/error.h"

namespace block_agent {

namespace {

using cni::cat;

/// Labels have no characters that their value would have to escape.
struct OfNetwork {
  const char* name;
  const char* help;
  std::uint64_t (*value)(const Count&);
};
constexpr OfNetwork kOfNetworks[] = {
    {"patchbay_agent_blocks_held", "Blocks of this node.",
     [](const Count& of) -> std::uint64_t { return of.held; }},
    {"patchbay_agent_blocks_returning", "Blocks that the engine is asked to remove.",
     [](const Count& of) -> std::uint64_t { return of.returning; }},
    {"patchbay_agent_blocks_lost",
     "Blocks with leases of this node that another node has: addresses may be doubled.",
     [](const Count& of) -> std::uint64_t { return of.lost; }},
    {"patchbay_agent_block_addresses", "Addresses of held blocks.",
     [](const Count& of) { return of.addresses; }},
    {"patchbay_agent_block_leases", "Leases in held blocks.",
     [](const Count& of) { return of.leases; }},
};

struct OfAgent {
  const char* name;
  const char* type;
  const char* help;
  std::uint64_t (*value)(const Totals&);
};
constexpr OfAgent kOfAgent[] = {
    {"patchbay_agent_blocks_engine_up", "gauge", "Whether the engine answers: 1 or 0.",
     [](const Totals& of) -> std::uint64_t { return of.is_engine_there ? 1 : 0; }},
    {"patchbay_agent_block_claims_total", "counter", "Blocks that were claimed.",
     [](const Totals& of) { return of.claims; }},
    {"patchbay_agent_block_conflicts_total", "counter",
     "Claims for which another node was quicker.", [](const Totals& of) { return of.conflicts; }},
    {"patchbay_agent_block_returns_total", "counter", "Blocks that were returned.",
     [](const Totals& of) { return of.returns; }},
    {"patchbay_agent_block_errors_total", "counter", "Failed calls of the engine.",
     [](const Totals& of) { return of.errors; }},
};

std::string head_of(const char* name, const char* type, const char* help) {
  return cat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

}  // namespace

std::string metrics_text(const std::vector<Count>& counts, const Totals& totals) {
  std::string out;
  for (const OfNetwork& metric : kOfNetworks) {
    out += head_of(metric.name, "gauge", metric.help);
    for (const Count& one : counts) {
      out += cat(metric.name, "{network=\"", one.network, "\"} ", metric.value(one), "\n");
    }
  }
  for (const OfAgent& metric : kOfAgent) {
    out += cat(head_of(metric.name, metric.type, metric.help), metric.name, " ",
               metric.value(totals), "\n");
  }
  return out;
}

}  // namespace block_agent

// Writes the status of claims from a ledger as patchbay-agent does, and what is in the ledger as
// Prepare, ADD and others do.
//   claim_status serve LEDGER KUBECONFIG DRIVER POOL   until stdin ends
//   claim_status put LEDGER ID CLAIM                   JSON {uid, namespace, name, device, share};
//   its pod is "shop/NAME" claim_status hold|release|remove LEDGER ID claim_status result LEDGER ID
//   RESULT               what ADD returned
#include "plugins/devices/agent/dra/status/claim_status.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kubernetes/access.h"
#include "plugins/state/ledger.h"

namespace {

using devices::Entry;
using devices::Ledger;
using std::chrono::milliseconds;

void serve(const std::vector<std::string>& words) {
  devices::dra::ClaimStatus::Times times;
  times.poll = std::chrono::milliseconds(500);
  times.first = milliseconds(100);
  times.most = milliseconds(1000);
  const char* const refused = std::getenv("STATUS_REFUSED");  // milliseconds
  times.refused = milliseconds(refused == nullptr ? 500 : std::atol(refused));
  times.verify = milliseconds(2000);
  const devices::dra::ClaimStatus status(kubernetes::from_kubeconfig(words.at(2)),
                                         {words.at(3), words.at(4)}, words.at(1), times);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

Entry entry_of(const std::string& id, const std::string& text) {
  const auto claim = nlohmann::json::parse(text);
  Entry out{.id = id, .resource = "vendor.example/nic"};
  out.promised = 1;
  const std::string name = claim.at("name");
  out.pod = devices::Pod{"shop", name, "pod-" + name};
  out.claim = devices::Claim{};
  out.claim->uid = claim.at("uid");
  out.claim->space = claim.at("namespace");
  out.claim->name = name;
  out.claim->device = claim.at("device");
  out.claim->share = claim.value("share", "");
  out.plugins = "[]";
  return out;
}

void change(const std::vector<std::string>& words) {
  const std::string &verb = words.at(0), &id = words.at(2);
  const Ledger ledger = Ledger::create(words.at(1));
  const auto lock = ledger.lock();
  const auto entry = ledger.read(id);
  if (verb == "put") {
    ledger.put(entry_of(id, words.at(3)));
  } else if (verb == "hold") {
    ledger.put_holder(id, {.owner = {{"net", "c1", "eth0"}, "/run/netns/c1", 1},
                           .interface = "net1",
                           .resource = entry->resource,
                           .pod = entry->pod});
  } else if (verb == "result") {
    ledger.add_result(id, words.at(3));
  } else if (verb == "release") {
    ledger.remove_holder(id);
  } else {
    ledger.remove(id);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  words.at(0) == "serve" ? serve(words) : change(words);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}

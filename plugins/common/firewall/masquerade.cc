#include "plugins/common/firewall/masquerade.h"

#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "netlink/nf/socket.h"
#include "plugins/common/firewall/iptables_restore.h"
#include "plugins/common/firewall/masquerade_iptables.h"
#include "plugins/common/firewall/masquerade_nft.h"
#include "plugins/names/tables.h"

namespace plugins {

namespace {

namespace nf = netlink::nf;
using cni::Code;
using netlink::cat;

nf::NfSocket* pointer(std::optional<nf::NfSocket>& socket) { return socket ? &*socket : nullptr; }

std::optional<std::string> nftables_missing() {
  auto socket = nf::NfSocket::find();
  if (socket && nft::can_masquerade(*socket)) return std::nullopt;
  return netlink::nf::kNoNat;
}

std::optional<std::string> iptables_missing() {
  if (find_restore(netlink::Family::kIpv4)) return std::nullopt;
  return "iptables-restore (package iptables) is in none of PATH, /usr/sbin and /sbin";
}

cni::Error no_backend() {
  const auto what = masquerade_missing(std::nullopt);
  return {Code::kPluginUnavailable,
          cat("choose a backend for ipMasq: ", what.value_or("try again"))};
}

}  // namespace

std::optional<MasqueradeBackend> backend_from(std::string_view text) {
  if (text == "nftables") return MasqueradeBackend::kNftables;
  if (text == "iptables") return MasqueradeBackend::kIptables;
  return std::nullopt;
}

MasqueradeBackend choose_backend() {
  if (!nftables_missing()) return MasqueradeBackend::kNftables;
  if (!iptables_missing()) return MasqueradeBackend::kIptables;
  throw no_backend();
}

std::optional<std::string> masquerade_missing(std::optional<MasqueradeBackend> backend) {
  if (backend == MasqueradeBackend::kIptables) return iptables_missing();
  const auto nft = nftables_missing();
  if (backend || !nft) return nft;
  const auto iptables = iptables_missing();
  if (!iptables) return std::nullopt;
  return cat(*nft, ", and ", *iptables);
}

void add_masquerade(std::optional<MasqueradeBackend> backend, const Masquerade& masquerade) {
  const cni::Phase phase("masquerade");
  if (masquerade.addresses.empty()) return;
  if (backend == MasqueradeBackend::kNftables) {
    nf::NfSocket socket;
    nft::add(socket, masquerade);
    return;
  }
  auto socket = nf::NfSocket::find();
  if (!backend && socket && nft::add(*socket, masquerade, true)) return;
  if (!backend && iptables_missing()) throw no_backend();
  xt::add(pointer(socket), masquerade);
}

void restore_masquerade(std::optional<MasqueradeBackend> backend, const Masquerade& masquerade) {
  if (!backend) backend = choose_backend();
  auto socket = nf::NfSocket::find();
  if (backend == MasqueradeBackend::kIptables) {
    return xt::restore(pointer(socket), masquerade);
  }
  if (!socket) throw cni::Error(Code::kPluginUnavailable, netlink::nf::kNoNfTables);
  nft::add(*socket, masquerade);
  socket->commit_planned(
      [&](nf::Batch& batch) { nft::plan_remove_earlier(*socket, masquerade, batch); });
}

void remove_masquerade(const Masquerade& masquerade) {
  cni::BestEffort each;
  each("nf_tables", [&] {
    if (auto socket = nf::NfSocket::find()) remove_nft_masquerade(*socket, masquerade);
  });
  each("iptables", [&] { remove_legacy_masquerade(masquerade); });
  each.finish();
}

void remove_legacy_masquerade(const Masquerade& masquerade) { xt::remove_legacy(masquerade); }

void remove_nft_masquerade(nf::NfSocket& socket, const Masquerade& masquerade) {
  const cni::Phase phase("masquerade");
  socket.commit_planned([&](nf::Batch& batch) {
    nft::plan_remove(socket, masquerade, batch);
    const auto chains = xt::chains_of(masquerade);
    const auto found = socket.has_chains({nft::earlier_checks(), chains[0], chains[1]});
    if (found[0]) nft::plan_remove_earlier(socket, masquerade, batch);
    if (found[1] || found[2]) xt::plan_remove(socket, masquerade, batch);
  });
  socket.commit_planned([&](nf::Batch& batch) { nft::plan_remove_unused(socket, batch); });
}

void gc_masquerade(const std::string& network, cni::Collect& collect) {
  auto socket = nf::NfSocket::find();
  cni::BestEffort each;
  if (socket) {
    each("nf_tables", [&] {
      socket->commit_planned([&](nf::Batch& batch) { nft::plan_gc(*socket, collect, batch); });
      if (collect.only_looks()) return;
      socket->commit_planned([&](nf::Batch& batch) { nft::plan_remove_unused(*socket, batch); });
    });
  }
  each("iptables", [&] {
    for (const Masquerade& one : xt::stale(pointer(socket), network, collect)) {
      each(one.key.container_id, [&] { remove_masquerade(one); });
    }
  });
  each.finish();
}

void check_masquerade(const Masquerade& masquerade) {
  auto socket = nf::NfSocket::find();
  std::optional<std::string> nft = netlink::nf::kNoNfTables;
  if (socket) nft = nft::missing(*socket, masquerade);
  if (!nft) return;
  if (masquerade.except.empty() && !xt::missing(pointer(socket), masquerade)) return;
  throw cni::Error(Code::kInternal, cat("check masquerading: ", *nft));
}

MasqueradeForm masquerade_form(std::optional<MasqueradeBackend> backend, bool of_reference) {
  if (!backend && of_reference && !iptables_missing()) backend = MasqueradeBackend::kIptables;
  if (!backend) backend = choose_backend();
  if (backend == MasqueradeBackend::kIptables) return MasqueradeForm::kChain;
  return of_reference ? MasqueradeForm::kRules : MasqueradeForm::kElements;
}

std::optional<std::string> masquerade_difference(MasqueradeForm form, const Masquerade& m) {
  auto socket = nf::NfSocket::find();
  const struct {
    MasqueradeForm form;
    std::string what;
    bool all, any;  ///< of what it consists of exists
  } forms[] = {
      {MasqueradeForm::kChain, cat("chain '", xt::chains_of(m)[0].str(), "'"),
       !xt::missing(pointer(socket), m), xt::has(pointer(socket), m)},
      {MasqueradeForm::kRules, cat("rules in '", nft::earlier_checks().str(), "'"),
       socket && nft::has_earlier(*socket, m, true), socket && nft::has_earlier(*socket, m, false)},
      {MasqueradeForm::kElements, cat("elements of table '", names::kMasqueradeTable, "'"),
       socket && !nft::missing_elements(*socket, m), socket && nft::has_elements(*socket, m)}};
  for (const auto& one : forms) {
    const bool wanted = one.form == form;
    if (wanted == (wanted ? one.all : one.any)) continue;
    return cat("masquerading: ", one.what, wanted ? " to be added" : " to be removed");
  }
  return std::nullopt;
}

void put_masquerade_form(MasqueradeForm form, const Masquerade& m) {
  auto socket = nf::NfSocket::find();
  if (form == MasqueradeForm::kChain) {
    xt::restore(pointer(socket), m);
    if (!socket) return;
  }
  if (!socket) throw cni::Error(Code::kPluginUnavailable, netlink::nf::kNoNfTables);
  if (form == MasqueradeForm::kRules) nft::add_earlier(*socket, m);
  if (form == MasqueradeForm::kElements) nft::add(*socket, m);
  socket->commit_planned([&](nf::Batch& batch) {
    if (form != MasqueradeForm::kElements) nft::plan_remove(*socket, m, batch);
    if (form != MasqueradeForm::kRules) nft::plan_remove_earlier(*socket, m, batch);
    if (form != MasqueradeForm::kChain) xt::plan_remove(*socket, m, batch);
  });
  if (form != MasqueradeForm::kChain) xt::remove_legacy(m);
}

std::string RemoveMasquerade::describe() const {
  const auto& [network, id, ifname] = masquerade.key;
  return cat("remove the masquerading of '", id, "' '", ifname, "'");
}

}  // namespace plugins

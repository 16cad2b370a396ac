#include "plugins/common/masquerade.h"

#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "netlink/nf/socket.h"
#include "plugins/common/iptables_restore.h"
#include "plugins/common/masquerade_iptables.h"
#include "plugins/common/masquerade_nft.h"
#include "plugins/common/masquerade_record.h"

namespace plugins {

namespace {

using cni::Code;
using netlink::cat;
using netlink::nf::Batch;
using netlink::nf::NfSocket;

NfSocket* pointer(std::optional<NfSocket>& socket) { return socket ? &*socket : nullptr; }

std::optional<std::string> nftables_missing() {
  auto socket = NfSocket::find();
  if (socket && nft::can_masquerade(*socket)) return std::nullopt;
  return "the kernel has no NAT for nf_tables";
}

std::optional<std::string> iptables_missing() {
  if (find_restore(netlink::Family::kIpv4)) return std::nullopt;
  return "iptables-restore is in none of PATH, /usr/sbin and /sbin";
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

MasqueradeBackend choose_backend(const std::string& configured) {
  if (const auto backend = backend_from(configured)) return *backend;
  if (!configured.empty()) {
    throw cni::Error(Code::kInvalidConfig, cat("unknown ipmasq backend \"", configured, "\""));
  }
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
    NfSocket socket;
    nft::add(socket, masquerade);
    return;
  }
  auto socket = NfSocket::find();
  if (!backend && socket && nft::add(*socket, masquerade, true)) return;
  if (!backend && iptables_missing()) throw no_backend();
  nft::MasqueradeRecord::create(masquerade).keep({});
  xt::add(pointer(socket), masquerade);
}

void restore_masquerade(MasqueradeBackend backend, const Masquerade& masquerade) {
  auto socket = NfSocket::find();
  if (backend == MasqueradeBackend::kIptables) {
    nft::MasqueradeRecord::create(masquerade).keep({});
    return xt::restore(pointer(socket), masquerade);
  }
  if (!socket) throw cni::Error(Code::kPluginUnavailable, "the kernel has no nf_tables");
  nft::restore(*socket, masquerade);
}

bool was_masqueraded(const Masquerade& masquerade) {
  return nft::MasqueradeRecord::exists(masquerade);
}

void remove_masquerade(const Masquerade& masquerade) {
  auto socket = NfSocket::find();
  remove_masquerade(pointer(socket), masquerade);
}

void remove_masquerade(NfSocket* socket, const Masquerade& masquerade) {
  const cni::Phase phase("masquerade");
  cni::BestEffort each;
  std::optional<nft::MasqueradeRecord> record;
  nft::Handles handles;
  each("read what ADD noted", [&] {
    record = nft::MasqueradeRecord::find(masquerade);
    handles = record->handles();
  });
  if (socket != nullptr) {
    each("nf_tables", [&] {
      socket->commit_planned([&](Batch& batch) {
        nft::plan_remove(*socket, masquerade, handles, batch);
        xt::plan_remove(*socket, masquerade, batch);
      });
    });
  }
  each("iptables", [&] { xt::remove_legacy(masquerade); });
  each.finish();
  if (record) record->remove();  // not before: the next DEL may know by it alone of the rules
}

void gc_masquerade(const std::string& network, const std::vector<cni::Attachment>& valid) {
  auto socket = NfSocket::find();
  cni::BestEffort each;
  if (socket) {
    each("nf_tables", [&] {
      socket->commit_planned([&](Batch& batch) { nft::plan_gc(*socket, network, valid, batch); });
      nft::MasqueradeRecord::collect(network, valid);
    });
  }
  each("iptables", [&] {
    for (const Masquerade& one : xt::stale(pointer(socket), network, valid)) {
      each(one.container_id, [&] { remove_masquerade(pointer(socket), one); });
    }
  });
  each.finish();
}

void check_masquerade(const Masquerade& masquerade) {
  auto socket = NfSocket::find();
  std::optional<std::string> nft = "the kernel has no nf_tables";
  if (socket) nft = nft::missing(*socket, masquerade);
  if (!nft || !xt::missing(pointer(socket), masquerade)) return;
  throw cni::Error(Code::kInternal, cat("check masquerading: ", *nft));
}

std::string RemoveMasquerade::describe() const {
  return cat("remove the masquerading of '", masquerade.container_id, "' '", masquerade.ifname,
             "'");
}

}  // namespace plugins

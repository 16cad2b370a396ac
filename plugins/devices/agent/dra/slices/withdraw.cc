#include "plugins/devices/agent/dra/slices/withdraw.h"

#include "kubernetes/client.h"
#include "kubernetes/error.h"
#include "libcni/common/error.h"

namespace devices::dra {

namespace {

using kubernetes::ApiError;

std::size_t withdraw(kubernetes::Client& client, const Publisher& of) {
  std::size_t out = 0;
  for (const Json& object : client.list(slice_objects().path(), selector_of(of)).items) {
    const auto one = own_slice(object, of);
    if (!one) continue;
    try {
      client.remove(slice_objects().path_of(one->name), {.uid = one->uid});
      ++out;
    } catch (const ApiError& e) {
      if (!e.is_not_found()) throw;
    }
  }
  return out;
}

}  // namespace

const kubernetes::Collection& slice_objects() {
  static const kubernetes::Collection kSlices{"resource.k8s.io/v1", "resourceslices"};
  return kSlices;
}

kubernetes::Query selector_of(const Publisher& of) {
  return {{"fieldSelector", cni::cat("spec.nodeName=", of.node, ",spec.driver=", of.driver)}};
}

kubernetes::Access access_of(const Dra& dra) {
  return dra.kubeconfig.empty() ? kubernetes::in_cluster()
                                : kubernetes::from_kubeconfig(dra.kubeconfig);
}

std::size_t withdraw_slices(const Dra& dra) try {
  kubernetes::Client client(access_of(dra));
  return withdraw(client, {dra.driver, dra.node});
} catch (const ApiError& e) {
  throw cni::Error(cni::Code::kIoFailure, e.what());
}

}  // namespace devices::dra

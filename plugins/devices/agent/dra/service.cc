#include "plugins/devices/agent/dra/service.h"

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "libcni/common/error.h"
#include "plugins/devices/agent/kubelet/device_plugin.h"
#include "plugins/devices/agent/kubelet/limits.h"

namespace devices::dra {

namespace {

using cni::cat;
using grpc::Status;
using grpc::StatusCode;

// An answer names each claim once, by its UID.
template <class Request>
Status wrong_in(const Request& request) {
  if (request.claims_size() > static_cast<int>(kMaxClaims)) {
    return {StatusCode::INVALID_ARGUMENT, cat("more than ", kMaxClaims, " claims")};
  }
  std::set<std::string> seen;
  for (const auto& one : request.claims()) {
    if (seen.insert(one.uid()).second) continue;
    return {StatusCode::INVALID_ARGUMENT, cat("claim ", clean(one.uid()), " is listed twice")};
  }
  return Status::OK;
}

NamedClaim named(const auto& claim) { return {claim.uid(), claim.namespace_(), claim.name()}; }

void write(const Prepared& from, const std::string& node, auto& into) {
  into.set_error(from.error);
  for (const auto& one : from.devices) {
    auto& device = *into.add_devices();
    // Containers refer to the request alone, whichever of its subrequests was allocated.
    device.add_request_names(one.request.substr(0, one.request.find('/')));
    device.set_pool_name(node);
    device.set_device_name(one.name);
    for (const std::string& name : one.cdi) device.add_cdi_device_ids(name);
    if constexpr (requires { device.set_share_id(one.share); }) {
      if (!one.share.empty()) device.set_share_id(one.share);
    }
  }
}

// Has a worker do it. A call whose caller has hung up meanwhile changes nothing.
template <class Request>
grpc::ServerUnaryReactor* later(grpc::CallbackServerContext* context, const Request& request,
                                Worker& worker, std::function<void()>&& work) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  if (Status wrong = wrong_in(request); !wrong.ok()) {
    reactor->Finish(wrong);
    return reactor;
  }
  const bool is_taken = worker.post([context, reactor, work = std::move(work)] {
    if (context->IsCancelled()) return reactor->Finish(Status::CANCELLED);
    work();
    reactor->Finish(Status::OK);
  });
  if (!is_taken) {
    reactor->Finish({StatusCode::RESOURCE_EXHAUSTED, "too many calls wait for the agent"});
  }
  return reactor;
}

template <class Request, class Answer>
grpc::ServerUnaryReactor* prepare(grpc::CallbackServerContext* context, Work& work,
                                  const Request* request, Answer* answer) {
  const auto until = Clock::now() + kAnswerWithin;
  return later(context, *request, work.preparing, [context, &work, request, answer, until] {
    for (const auto& one : request->claims()) {
      write(
          work.preparer.prepare(named(one), {until, [context] { return context->IsCancelled(); }}),
          work.preparer.node(), (*answer->mutable_claims())[one.uid()]);
    }
  });
}

template <class Request, class Answer>
grpc::ServerUnaryReactor* unprepare(grpc::CallbackServerContext* context, Work& work,
                                    const Request* request, Answer* answer) {
  const auto until = Clock::now() + kAnswerWithin;
  return later(context, *request, work.releasing, [&work, request, answer, until] {
    for (const auto& one : request->claims()) {
      (*answer->mutable_claims())[one.uid()].set_error(work.preparer.unprepare(named(one), until));
    }
  });
}

}  // namespace

grpc::ServerUnaryReactor* DraPlugin::NodePrepareResources(
    grpc::CallbackServerContext* context, const v1::NodePrepareResourcesRequest* request,
    v1::NodePrepareResourcesResponse* answer) {
  return prepare(context, work_, request, answer);
}

grpc::ServerUnaryReactor* DraPlugin::NodeUnprepareResources(
    grpc::CallbackServerContext* context, const v1::NodeUnprepareResourcesRequest* request,
    v1::NodeUnprepareResourcesResponse* answer) {
  return unprepare(context, work_, request, answer);
}

grpc::ServerUnaryReactor* DraPluginBeta::NodePrepareResources(
    grpc::CallbackServerContext* context, const v1beta1::NodePrepareResourcesRequest* request,
    v1beta1::NodePrepareResourcesResponse* answer) {
  return prepare(context, work_, request, answer);
}

grpc::ServerUnaryReactor* DraPluginBeta::NodeUnprepareResources(
    grpc::CallbackServerContext* context, const v1beta1::NodeUnprepareResourcesRequest* request,
    v1beta1::NodeUnprepareResourcesResponse* answer) {
  return unprepare(context, work_, request, answer);
}

}  // namespace devices::dra

#pragma once

#include "kubernetes/access.h"
#include "kubernetes/json.h"
#include "kubernetes/path.h"
#include "plugins/cluster-pool/agent/engine.h"

namespace block_agent {

/// The API server of Kubernetes, with custom resources of the group blocks.patchbay, of the cluster
/// (conf-examples/kubernetes/cluster-pool.yaml). A claim is the creation of an object.
/// \throws cni::Error: kubernetes::Client().
Engine kubernetes_engine(const kubernetes::Access& access);

/// The objects of a kind.
kubernetes::Collection collection_of(Kind kind);

/// What an object of Kubernetes says; nullopt: it is not readable, or its name is not that of what
/// it says.
std::optional<Object> object_of_resource(Kind kind, const kubernetes::Json& resource);

}  // namespace block_agent

#pragma once

#include <set>
#include <string>
#include <vector>

#include "libcni/config/result.h"
#include "libcni/runtime/cache.h"

/// Entries of the results cache. Any runtime may have written them, so that no function here fails
/// for an entry's content.
namespace tool {

/// The result of ADD; an empty one if ADD has not ended, or the result is unreadable.
cni::Result result_of(const cni::CachedAttachment& one);

/// cni::pod_name() of the arguments of its runtime, printable().
std::string pod_name_of(const cni::CachedAttachment& one);

/// The IDs of the containers that a person means: by an ID, its beginning, or the name of a
/// Kubernetes pod with or without its namespace. \throws cni::Error unless it is those of one pod.
std::set<std::string> containers_named(const std::string& name, const cni::Cache& cache);

/// The IDs of the containers of a Kubernetes pod, by [NAMESPACE/]NAME; a name without a namespace
/// may be that of a pod in each. \throws cni::Error if no pod has it, or several have it that may
/// not.
enum class Pods { kOne, kSeveral };
std::set<std::string> containers_of_pod(const std::string& name, Pods pods,
                                        const cni::Cache& cache);

/// A port of the node that the runtime asked ADD to map; "tcp" without a protocol.
struct HostPort {
  std::string ip;  ///< empty: any address of the node
  unsigned host = 0, container = 0;
  std::string protocol;
};
std::vector<HostPort> host_ports_of(const cni::CachedAttachment& one);

/// By network, container and interface; but the interfaces of a pod are one after another.
void sort_by_pod(std::vector<cni::CachedAttachment>& attachments);

/// All entries, by network, container and interface. A broken file is noted on stderr.
std::vector<cni::CachedAttachment> sorted_entries(const cni::Cache& cache);
void note_broken(const cni::Cache& cache, const std::vector<cni::Cache::Broken>& broken);

}  // namespace tool

#pragma once

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "kubernetes/client.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/state/ledger_entry.h"

/// What the API server says that pods of this node ask for.
namespace devices::dra {

/// Whether the pod asks neither for a claim nor for an extended resource, which may become one. The
/// spec that says so cannot be changed any more.
/// \param pod the object of the API; one of another form may ask for anything.
bool asks_for_no_device(const nlohmann::json& pod);

/// Pods that ask for no device, by a watch of the pods of this node, which begins with the first
/// question. Nothing depends on it: a pod that it has not seen, also because the API server is away
/// or refuses, is not known. Thread-safe.
class PodSpecs {
 public:
  /// \throws cni::Error: access_of().
  explicit PodSpecs(const Dra& dra);
  ~PodSpecs();
  PodSpecs(const PodSpecs&) = delete;
  PodSpecs& operator=(const PodSpecs&) = delete;

  /// Whether that is known of the pod with this UID and name. Waits for nothing.
  bool asks_for_none(const Pod& pod);

 private:
  void follow();
  void note(const nlohmann::json& pod, bool is_plain);
  void note_error(const std::exception& e);

  const std::string node_;
  kubernetes::Client client_;
  std::mutex mutex_;                          // for what is below
  std::map<std::string, std::string> plain_;  // Pod::str() of those that ask for none, by UID
  std::thread thread_;
  std::string error_;  // of the thread: the last one
};

}  // namespace devices::dra

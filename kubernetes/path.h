#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kubernetes {

/// Parameters of a URL, not encoded: {{"fieldSelector", "spec.nodeName=n1"}}.
using Query = std::vector<std::pair<std::string, std::string>>;

/// Bytes other than unreserved ones as %XX (RFC 3986, 2.3).
std::string encoded(std::string_view text);
/// "?a=b&c=d", encoded; "" without parameters.
std::string text_of(const Query& query);

/// A kind of objects, in one namespace or all: {"resource.k8s.io/v1", "resourceclaims", "default"}.
struct Collection {
  std::string api;         ///< "v1" of the core group, else "GROUP/VERSION"
  std::string plural;      ///< "pods"
  std::string space = {};  ///< namespace; "": those of the cluster, or of all namespaces

  /// "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims".
  std::string path() const;
  /// Of one object, and of its subresource ("status") if that is not "".
  std::string path_of(std::string_view name, const char* subresource = "") const;
};

}  // namespace kubernetes

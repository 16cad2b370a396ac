#pragma once

#include <string>

namespace kubernetes {

/// Certificates or keys in PEM: a file, which is read again for each connection, or the text.
struct Pem {
  std::string file = {}, text = {};
  bool empty() const { return file.empty() && text.empty(); }
  bool operator==(const Pem&) const = default;
};

/// Where an API server is, and as whom this process speaks to it.
struct Access {
  std::string
      server;   ///< scheme, host and port ("https", "10.96.0.1", 443), without a slash at the end
  Pem ca = {};  ///< empty: the certificates of the system
  std::string server_name = {};  ///< in the server's certificate; "": the host of `server`
  Pem certificate = {}, key = {};
  std::string token_file = {};  ///< read again for each call if it changed
  std::string token = {};       ///< without token_file
  std::string space = {};       ///< namespace of the context or of the service account; may be ""
  bool operator==(const Access&) const = default;
};

/// That of a pod: KUBERNETES_SERVICE_HOST and _PORT, and the files of its service account.
/// \param root put in front of /var/run/secrets/kubernetes.io/serviceaccount, for tests.
/// \throws cni::Error(kInvalidEnvironment) outside of a pod.
Access in_cluster(const std::string& root = "");

/// The current context of a kubeconfig. Paths in it are relative to its folder.
/// \throws cni::Error(kInvalidConfig): what it says needs a program (`exec`), is insecure, or is
/// not a kubeconfig; kIoFailure: the file is not readable.
Access from_kubeconfig(const std::string& path);
/// The same from its text. \param folder of relative paths.
Access parse_kubeconfig(const std::string& text, const std::string& folder);

/// Refuses a server that is no URL of http or https, and http beyond the loopback interface with
/// a token or key, which everybody on the way would read. \throws cni::Error(kInvalidConfig).
void require_safe(const Access& access);

}  // namespace kubernetes

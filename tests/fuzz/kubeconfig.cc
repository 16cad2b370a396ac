// A kubeconfig, which the administrator or a tool has written.
#include "kubernetes/access.h"
#include "kubernetes/base64.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::accepts([&] {
    const auto access = kubernetes::parse_kubeconfig(std::string(text), "/etc");
    const std::string_view server = access.server;
    const std::string_view host = server.substr(server.find("//") + 2);
    const bool is_near =
        server.starts_with("http:") &&
        (host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]"));
    fuzz::require(server.starts_with("https:") || is_near, "no token goes in the clear");
    fuzz::require(access.certificate.empty() == access.key.empty(), "a certificate has a key");
    fuzz::require(access.token_file.empty() || access.token_file[0] == '/', "a path is whole");
  });
  const auto bytes = kubernetes::from_base64(text);
  fuzz::require(!bytes || bytes->size() <= size, "base64 is longer than its bytes");
  return 0;
}

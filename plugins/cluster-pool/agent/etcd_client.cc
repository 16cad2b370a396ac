#include "plugins/cluster-pool/agent/etcd_client.h"

#include <etcd.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>
#include <set>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/printable.h"
#include "netlink/types/fd.h"
#include "plugins/cluster-pool/agent/etcd_hint.h"

namespace block_agent {

/// A channel to one endpoint, with the token of a login on it.
struct EtcdConnection {
  std::string endpoint;
  std::shared_ptr<grpc::Channel> channel;
  std::string token = {};
};

namespace {

using cni::cat;
using grpc::Status;
using grpc::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::system_clock;

// Of a call, on all endpoints. Answers that take 30 s are slow, and not away, and the first call of
// a connection waits for two.
constexpr seconds kDeadline{90};
constexpr seconds kTry{4};  // on one, if there are others
constexpr std::chrono::minutes kWatch{10};
constexpr int kConnect = 60'000, kKeepAlive = 30'000, kKeepAliveTimeout = 40'000;  // milliseconds
constexpr int kMaxAnswer = 16 << 20, kMaxMetadata = 16 << 10;                      // bytes
constexpr std::size_t kMaxToken = 8 << 10, kMaxSentence = 300;
constexpr const char* kSystemCertificates = "/etc/ssl/certs/ca-certificates.crt";

std::string text_of(const std::string& path) {
  auto text = netlink::read_regular_file(path);
  if (!text) throw netlink::Error(cat("read '", path, "'"), ENOENT);
  return std::move(*text);
}

std::shared_ptr<grpc::ChannelCredentials> credentials_of(const EtcdConf& conf, bool is_tls) {
  if (!is_tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = text_of(conf.ca.empty() ? kSystemCertificates : conf.ca);
  if (!conf.cert.empty()) {
    options.pem_cert_chain = text_of(conf.cert);
    options.pem_private_key = text_of(conf.key);
  }
  return grpc::SslCredentials(options);
}

std::shared_ptr<EtcdConnection> connect(const EtcdConf& conf, const std::string& endpoint) {
  const Endpoint at = *endpoint_in(endpoint);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxAnswer);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadata);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnect);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAlive);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepAliveTimeout);
  return std::make_shared<EtcdConnection>(EtcdConnection{
      endpoint, grpc::CreateCustomChannel(at.address, credentials_of(conf, at.is_tls), arguments)});
}

// A sentence of etcd or gRPC, in ours.
std::string shown(const Status& status) {
  std::string out = cni::printable_text(status.error_message().substr(0, kMaxSentence));
  std::ranges::replace(out, '\n', ' ');
  return out.empty() ? cat("status ", static_cast<int>(status.error_code()), " of gRPC") : out;
}

bool has(const Status& status, const char* words) {
  return status.error_message().find(words) != std::string::npos;
}

// The token expired, or users changed since.
bool needs_login(const Status& status) {
  return status.error_code() == StatusCode::UNAUTHENTICATED || has(status, "invalid auth token") ||
         has(status, "auth: revision in header is old");
}

// Another member may do better.
bool needs_another(const Status& status) {
  return status.error_code() == StatusCode::UNAVAILABLE ||
         status.error_code() == StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == StatusCode::UNKNOWN;
}

cni::Error error_of(const std::string& what, const std::string& endpoint, const Status& status,
                    const EtcdConf& conf) {
  const bool is_final = status.error_code() == StatusCode::PERMISSION_DENIED ||
                        status.error_code() == StatusCode::UNAUTHENTICATED ||
                        status.error_code() == StatusCode::INVALID_ARGUMENT ||
                        status.error_code() == StatusCode::UNIMPLEMENTED;
  const std::string cause = status.error_code() == StatusCode::DEADLINE_EXCEEDED
                                ? "no answer within the deadline"
                                : shown(status);
  const std::string hint = etcd_hint(status.error_message(), endpoint, conf);
  return {is_final ? cni::Code::kInternal : cni::Code::kTryAgainLater,
          cat(what, " at '", endpoint, "': ", cause, hint.empty() ? "" : " (", hint,
              hint.empty() ? "" : ")")};
}

}  // namespace

struct EtcdClient::Impl {
  explicit Impl(EtcdConf of) : conf(std::move(of)) {
    std::minstd_rand random{std::random_device{}()};
    next = random() % conf.endpoints.size();  // not all nodes on the first member
  }

  // A context that stop() cancels.
  struct Context {
    Context(Impl& of, system_clock::time_point end) : impl(of) {
      context.set_deadline(end);
      const std::lock_guard hold(impl.mutex);
      if (impl.is_stopping) context.TryCancel();
      impl.contexts.insert(&context);
    }
    ~Context() {
      const std::lock_guard hold(impl.mutex);
      impl.contexts.erase(&context);
    }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    Impl& impl;
    grpc::ClientContext context;
  };

  std::shared_ptr<EtcdConnection> connection(system_clock::time_point end);
  void login(EtcdConnection& to, system_clock::time_point end);
  void forget(const std::shared_ptr<EtcdConnection>& failed);
  template <class Fn>
  std::string call(const std::string& what, Fn&& fn);

  const EtcdConf conf;
  std::mutex mutex;  // for what is below
  std::condition_variable stopped;
  bool is_stopping = false;
  std::set<grpc::ClientContext*> contexts;
  std::shared_ptr<EtcdConnection> current;
  std::size_t next = 0;
};

std::shared_ptr<EtcdConnection> EtcdClient::Impl::connection(system_clock::time_point end) {
  std::size_t at = 0;
  {
    const std::lock_guard hold(mutex);
    if (current) return current;
    at = next;
  }
  auto out = connect(conf, conf.endpoints[at % conf.endpoints.size()]);
  try {
    if (!conf.username.empty()) login(*out, end);
  } catch (const cni::Error&) {
    // A failed login is no reason to go on with the same connection, nor with its certificates.
    const std::lock_guard hold(mutex);
    if (next == at) ++next;
    throw;
  }
  const std::lock_guard hold(mutex);
  if (!current) current = out;
  return current;
}

void EtcdClient::Impl::login(EtcdConnection& to, system_clock::time_point end) {
  etcdserverpb::AuthenticateRequest request;
  request.set_name(conf.username);
  std::string password = text_of(conf.password_file);
  while (password.ends_with('\n') || password.ends_with('\r')) password.pop_back();
  request.set_password(std::move(password));
  etcdserverpb::AuthenticateResponse answer;
  Context context(*this, end);
  const auto stub = etcdserverpb::Auth::NewStub(to.channel);
  const Status status = stub->Authenticate(&context.context, request, &answer);
  if (!status.ok()) throw error_of("log in", to.endpoint, status, conf);
  if (answer.token().size() > kMaxToken) {
    throw cni::Error(cni::Code::kInternal, cat("log in at '", to.endpoint, "': a huge token"));
  }
  to.token = answer.token();
}

void EtcdClient::Impl::forget(const std::shared_ptr<EtcdConnection>& failed) {
  const std::lock_guard hold(mutex);
  if (current != failed) return;  // another thread did it
  current.reset();
  ++next;
}

// fn makes the call on a connection. Returns the endpoint that answered.
template <class Fn>
std::string EtcdClient::Impl::call(const std::string& what, Fn&& fn) {
  const auto end = system_clock::now() + kDeadline;
  bool has_logged_in = false;
  for (std::size_t tries = 1;; ++tries) {
    const bool is_last = tries >= conf.endpoints.size() + (has_logged_in ? 1 : 0);
    const auto try_end = is_last ? end : std::min(end, system_clock::now() + kTry);
    std::shared_ptr<EtcdConnection> used;
    try {
      used = connection(try_end);
    } catch (const cni::Error& e) {  // the login failed
      if (is_last || e.code() != cni::Code::kTryAgainLater) throw;
      continue;
    }
    Context context(*this, try_end);
    if (!used->token.empty()) context.context.AddMetadata("token", used->token);
    const Status status = fn(*used, context.context);
    if (status.ok()) return used->endpoint;
    forget(used);
    if (status.error_code() == StatusCode::CANCELLED)
      throw error_of(what, used->endpoint, status, conf);
    const bool again = needs_login(status) && !conf.username.empty() && !has_logged_in;
    has_logged_in = has_logged_in || again;
    const bool other = needs_another(status) && !is_last;
    if ((!again && !other) || system_clock::now() >= end) {
      throw error_of(what, used->endpoint, status, conf);
    }
  }
}

EtcdClient::EtcdClient(EtcdConf conf) : impl_(std::make_unique<Impl>(std::move(conf))) {}
EtcdClient::~EtcdClient() { stop(); }

std::optional<etcdserverpb::RangeResponse> EtcdClient::range(
    const etcdserverpb::RangeRequest& request) {
  std::optional<etcdserverpb::RangeResponse> out;
  impl_->call("read keys", [&](EtcdConnection& on, grpc::ClientContext& context) {
    Status status = etcdserverpb::KV::NewStub(on.channel)->Range(&context, request, &out.emplace());
    const bool is_large = status.error_code() == StatusCode::RESOURCE_EXHAUSTED &&
                          has(status, "larger than max") && request.limit() != 1;
    if (!is_large) return status;
    out.reset();
    return Status::OK;
  });
  return out;
}

etcdserverpb::TxnResponse EtcdClient::txn(const etcdserverpb::TxnRequest& request) {
  etcdserverpb::TxnResponse out;
  impl_->call("write a key", [&](EtcdConnection& on, grpc::ClientContext& context) {
    out.Clear();
    return etcdserverpb::KV::NewStub(on.channel)->Txn(&context, request, &out);
  });
  return out;
}

void EtcdClient::watch(const etcdserverpb::WatchCreateRequest& request, const OnAnswer& on_answer) {
  const auto used = impl_->connection(system_clock::now() + kDeadline);
  std::minstd_rand random{std::random_device{}()};
  Impl::Context context(*impl_, system_clock::now() + kWatch + seconds(random() % 120));
  if (!used->token.empty()) context.context.AddMetadata("token", used->token);
  // A member that lost the others would say nothing for as long as the watch lasts. With this it
  // ends the watch: etcd's clients have it as WithRequireLeader.
  context.context.AddMetadata("hasleader", "true");
  const auto stub = etcdserverpb::Watch::NewStub(used->channel);
  const auto stream = stub->Watch(&context.context);
  etcdserverpb::WatchRequest create;
  *create.mutable_create_request() = request;
  etcdserverpb::WatchResponse answer;
  if (stream->Write(create)) {
    while (stream->Read(&answer)) {
      if (answer.canceled()) {
        context.context.TryCancel();
        stream->Finish();
        throw cni::Error(cni::Code::kTryAgainLater,
                         cat("watch keys at '", used->endpoint, "': etcd canceled it: ",
                             cni::printable_text(answer.cancel_reason().substr(0, kMaxSentence)),
                             answer.compact_revision() > 0 ? " (compacted)" : ""));
      }
      try {
        on_answer(answer);
      } catch (...) {
        context.context.TryCancel();
        stream->Finish();
        throw;
      }
    }
  }
  const Status status = stream->Finish();
  if (status.error_code() == StatusCode::DEADLINE_EXCEEDED) return;
  impl_->forget(used);
  throw error_of("watch keys", used->endpoint, status, impl_->conf);
}

void EtcdClient::stop() noexcept {
  const std::lock_guard hold(impl_->mutex);
  impl_->is_stopping = true;
  for (grpc::ClientContext* one : impl_->contexts) one->TryCancel();
  impl_->stopped.notify_all();
}

bool EtcdClient::wait(milliseconds pause) {
  std::unique_lock hold(impl_->mutex);
  return !impl_->stopped.wait_for(hold, pause, [this] { return impl_->is_stopping; });
}

}  // namespace block_agent

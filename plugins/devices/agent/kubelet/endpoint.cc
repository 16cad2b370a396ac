#include "plugins/devices/agent/kubelet/endpoint.h"

#include <pluginregistration.grpc.pb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <ctime>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/daemon/listener.h"
#include "libcni/daemon/unix_socket.h"
#include "plugins/devices/agent/kubelet/limits.h"
#include "plugins/devices/agent/log.h"

namespace devices {

namespace {

using cni::cat;
using grpc::Status;

constexpr char kDigits[] = "0123456789abcdef";
constexpr std::size_t kInstance = 6;  // digits in the name of a socket
const std::set<std::string> kEndings = {".sock", "-reg.sock"};

// Random: two agents may have one PID, in PID namespaces of their own.
std::string random_digits() {
  std::random_device source;
  std::string out;
  for (std::size_t n = 0; n < kInstance; ++n) out += kDigits[source() % 16];
  return out;
}

// A kubelet looks at a name once: each socket has another.
std::string next_number() {
  static std::atomic<unsigned> last = 0;
  std::string out;
  for (unsigned rest = ++last; rest != 0 || out.size() < 2; rest /= 16) {
    out.insert(out.begin(), kDigits[rest % 16]);
  }
  return out;
}

int count_of(std::chrono::milliseconds time) { return static_cast<int>(time.count()); }

void set_limits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCallsOfConnection);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, count_of(kMaxHandshake));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, count_of(kMaxIdle));
}

constexpr std::chrono::milliseconds kMoment{200};
constexpr std::chrono::milliseconds kBirth{500};  // between bind(2) and listen(2), at the longest
constexpr std::chrono::seconds kYoung{10};
constexpr Instances::Clock::time_point kLives{};

// Empty: it is no socket.
std::optional<std::chrono::seconds> age_of(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return std::nullopt;
  // Of before a boot with another clock: it is not young, however long.
  return std::chrono::abs(std::chrono::seconds(std::time(nullptr) - found.st_mtime));
}

}  // namespace

// For a kubelet that found the socket in plugins_registry.
class Endpoint::Registration final : public pluginregistration::Registration::CallbackService {
 public:
  Registration(const Served& served, const std::string& path) : served_(served), path_(path) {}

  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const pluginregistration::InfoRequest* /*request*/,
                                    pluginregistration::PluginInfo* answer) override {
    answer->set_type(served_.type);
    answer->set_name(served_.name);
    answer->set_endpoint(path_);
    for (const std::string& one : served_.versions) answer->add_supported_versions(one);
    return finish(context, Status::OK);
  }

  grpc::ServerUnaryReactor* NotifyRegistrationStatus(
      grpc::CallbackServerContext* context, const pluginregistration::RegistrationStatus* request,
      pluginregistration::RegistrationStatusResponse* /*answer*/) override {
    std::string error;
    if (request->plugin_registered()) {
      log(Level::kInfo, cat("registered by '", path_, "'"), {.resource = served_.name});
    } else {
      error = cat("the kubelet refuses it: ", clean(request->error()));
      log(Level::kError, cat("register by '", path_, "'"),
          {.resource = served_.name, .error = error});
    }
    if (served_.registered) served_.registered(error);
    return finish(context, Status::OK);
  }

 private:
  const Served& served_;
  const std::string& path_;
};

struct Endpoint::Services {
  Services(Served of, const std::string& path)
      : served(std::move(of)), registration(served, path) {}

  const Served served;
  Registration registration;
  std::unique_ptr<grpc::Server> server;
};

Served served_by(Resource& resource) {
  const auto service = std::make_shared<DevicePlugin>(resource);
  return {.type = "DevicePlugin",
          .name = resource.name,
          .versions = {"v1beta1"},
          .prefix = Endpoint::prefix(resource.name),
          .services = {service},
          .end_streams = [&service = *service] { service.end_streams(); }};
}

Endpoint::Endpoint(Served served, const std::string& folder)
    : name_(cat(served.prefix, own_instance(), next_number(), served.ending)),
      path_(cat(folder, "/", name_)) {
  cni::socket_address(path_);  // before gRPC refuses it without a reason
  if (!cni::Dir::exists(folder)) {
    throw cni::Error(cni::Code::kTryAgainLater,
                     cat("listen on '", path_, "': the folder does not exist"));
  }
  services_ = std::make_unique<Services>(std::move(served), path_);
  grpc::ServerBuilder builder;
  set_limits(builder);
  for (const auto& one : services_->served.services) builder.RegisterService(one.get());
  builder.RegisterService(&services_->registration);
  builder.AddListeningPort(cat("unix:", path_), grpc::InsecureServerCredentials());
  services_->server = builder.BuildAndStart();
  struct stat found {};
  if (!services_->server || ::lstat(path_.c_str(), &found) != 0) {
    throw cni::Error(cni::Code::kInternal, cat("listen on '", path_, "': gRPC cannot serve it"));
  }
  inode_ = found.st_ino;
  ::chmod(path_.c_str(), 0600);
}

// An Allocate that the core works on is answered.
Endpoint::~Endpoint() {
  withdraw();
  services_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
  services_->server->Wait();
}

void Endpoint::withdraw() {
  if (is_in_place()) ::unlink(path_.c_str());
  services_->served.end_streams();
}

bool Endpoint::is_in_place() const {
  struct stat found {};
  return ::lstat(path_.c_str(), &found) == 0 && found.st_ino == inode_;
}

// The hash, because resources of two vendors may end alike.
std::string Endpoint::prefix(const std::string& resource) {
  constexpr std::size_t kMost = 20;
  std::string shown = resource.substr(resource.rfind('/') + 1).substr(0, kMost);
  for (char& c : shown) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
  }
  return cat("patchbay-", shown, "-", cni::sha512_hex(resource, 8), "-");
}

// Another driver's name may begin with the name of this one and a hyphen.
std::string Endpoint::instance_of(const std::string& name, const std::string& prefix) {
  if (!name.starts_with(prefix)) return {};
  const std::string own = name.substr(prefix.size());
  const auto end = own.find_first_not_of(kDigits);
  const bool is_own = end != own.npos && end > kInstance && kEndings.contains(own.substr(end));
  return is_own ? own.substr(0, kInstance) : std::string();
}

const std::string& Endpoint::own_instance() {
  static const std::string digits = random_digits();
  return digits;
}

Instances::Instances(std::vector<std::string> folders, std::string prefix)
    : folders_(std::move(folders)), prefix_(std::move(prefix)) {}

std::vector<Instances::Socket> Instances::sockets() const {
  std::vector<Socket> out;
  for (const std::string& folder : folders_) {
    for (const std::string& name : cni::names_in(folder)) {
      std::string instance = Endpoint::instance_of(name, prefix_);
      if (instance.empty() || instance == Endpoint::own_instance()) continue;
      out.push_back({std::move(instance), cat(folder, "/", name)});
    }
  }
  return out;
}

// A process binds a socket and then listens on it: one that is young and refuses may be about to.
// An older one is of a process that was killed, whoever was there to see it.
std::map<std::string, bool> Instances::found() const {
  std::map<std::string, bool> out;
  for (const auto& [instance, path] : sockets()) {
    const auto age = age_of(path);
    const bool listens = cni::has_listener(path);
    if (listens || (age && *age < kYoung)) {
      out[instance] = out[instance] || listens;
    } else if (age) {
      ::unlink(path.c_str());
    }
  }
  return out;
}

void Instances::remove_dead(const std::string& instance) const {
  for (const auto& [of, path] : sockets()) {
    if (of == instance && age_of(path) && !cni::has_listener(path)) ::unlink(path.c_str());
  }
}

void Instances::look(Clock::time_point now) {
  const auto instances = found();
  for (const auto& [instance, listens] : instances) {
    Seen& one = seen_[instance];
    one.has_listened = one.has_listened || listens;
    if (listens) one.missing_since = kLives;
  }
  for (auto one = seen_.begin(); one != seen_.end();) {
    auto& [instance, seen] = *one;
    const auto is_found = instances.find(instance);
    const bool lives = is_found != instances.end() && is_found->second;
    if (!lives && seen.missing_since == kLives) seen.missing_since = now;
    const auto patience = seen.has_listened ? kMoment : kBirth;
    const bool has_ended = !lives && now - seen.missing_since >= patience;
    if (has_ended) {
      remove_dead(instance);
      last_end_ = std::max(last_end_, seen.missing_since);
    }
    one = has_ended ? seen_.erase(one) : std::next(one);
  }
}

}  // namespace devices

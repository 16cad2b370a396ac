#include "plugins/cluster-pool/agent/engine_kubernetes.h"

#include <charconv>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "kubernetes/answer.h"
#include "kubernetes/client.h"
#include "kubernetes/error.h"
#include "kubernetes/list_watch.h"
#include "libcni/common/error.h"
#include "libcni/daemon/log.h"

namespace block_agent {

namespace {

using cni::cat;
using kubernetes::ApiError;
using kubernetes::Client;
using kubernetes::Json;

constexpr const char* kGroup = "blocks.patchbay/v1";
constexpr const char* kNames[] = {"AddressBlock", "AddressPool", "AddressShortage"};
constexpr const char* kPlurals[] = {"addressblocks", "addresspools", "addressshortages"};
constexpr kubernetes::Limits kLimits{
    .deadline = std::chrono::seconds(60)};  // a call that takes 30 s is slow, not away

// Of definitions that lack a field the server would else drop it, and nobody could read the claim.
std::string strictly(const std::string& path) {
  return path + kubernetes::text_of({{"fieldValidation", "Strict"}});
}

std::size_t index_of(Kind kind) { return static_cast<std::size_t>(kind); }

std::uint64_t number_in(const std::string& version) {
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), out);
  return error == std::errc() && end == version.data() + version.size() ? out : 0;
}

cni::Error error_of(const ApiError& e) {
  const bool is_passing = e.is_passing() || e.status() == 401;
  std::string details;
  if (e.status() == 404 || e.status() == 400) {
    details = "apply conf-examples/kubernetes/cluster-pool.yaml, which has the definitions";
  }
  if (e.status() == 403) details = "its ClusterRole lacks a verb: cluster-pool.yaml has all";
  return {is_passing ? cni::Code::kTryAgainLater : cni::Code::kInternal, e.what(), details};
}

template <class Fn>
auto as_error(Fn&& fn) {
  try {
    return fn();
  } catch (const ApiError& e) {
    throw error_of(e);
  }
}

class KubernetesEngine {
 public:
  explicit KubernetesEngine(const kubernetes::Access& access)
      : client_(access, kLimits), blocks_(access, kLimits), shortages_(access, kLimits) {}
  ~KubernetesEngine() {
    stop();
    for (std::thread& one : threads_) one.join();
  }
  KubernetesEngine(const KubernetesEngine&) = delete;
  KubernetesEngine& operator=(const KubernetesEngine&) = delete;

  std::optional<Object> create(Object& object);
  bool replace(const Object& from, Object& to);
  Removal remove(const Object& object);
  std::vector<Object> list(Kind kind);
  bool has_node(const std::string& node);
  void follow(const Follower& follower);
  void stop() noexcept {
    for (Client* one : {&client_, &blocks_, &shortages_}) one->stop();
  }

 private:
  static void run(Client& client, Kind kind, const Follower& follower);

  Client client_, blocks_, shortages_;
  std::vector<std::thread> threads_;
};

// One that is not readable has its place alone, so that nobody takes it for free.
Object object_or_place(const Object& meant, const Json& resource) {
  if (auto out = object_of_resource(meant.kind, resource)) return *out;
  Object out = meant;
  out.node.clear();
  out.block_size = 0;
  return out;
}

std::optional<Object> KubernetesEngine::create(Object& object) {
  const auto collection = collection_of(object.kind);
  const Json body = {{"apiVersion", kGroup},
                     {"kind", kNames[index_of(object.kind)]},
                     {"metadata", {{"name", name_of(object)}}},
                     {"spec", Json(spec_of(object))}};
  return as_error([&]() -> std::optional<Object> {
    try {
      const Json answer = client_.create(strictly(collection.path()), body);
      object.version = number_in(kubernetes::metadata_of(answer, "resourceVersion"));
      return std::nullopt;
    } catch (const ApiError& e) {
      if (!e.is_conflict()) throw;
    }
    try {
      return object_or_place(object, client_.get(collection.path_of(name_of(object))));
    } catch (const ApiError& e) {
      if (!e.is_not_found()) throw;
      throw cni::Error(cni::Code::kTryAgainLater,
                       cat("create '", name_of(object), "': it was removed at the same time"));
    }
  });
}

bool KubernetesEngine::replace(const Object& from, Object& to) {
  const std::string path = collection_of(from.kind).path_of(name_of(from));
  return as_error([&] {
    try {
      Json found = client_.get(path);
      const auto there = object_of_resource(from.kind, found);
      if (!there || !there->is_claim_of(from)) return false;
      found["spec"] = Json(spec_of(to));  // with the resourceVersion, by which it is refused later
      to.version = number_in(
          kubernetes::metadata_of(client_.replace(strictly(path), found), "resourceVersion"));
      return true;
    } catch (const ApiError& e) {
      if (!e.is_not_found()) throw;
      return false;
    }
  });
}

Removal KubernetesEngine::remove(const Object& object) {
  const std::string path = collection_of(object.kind).path_of(name_of(object));
  return as_error([&] {
    try {
      const Json found = client_.get(path);
      const auto there = object_of_resource(object.kind, found);
      if (!there || !there->is_claim_of(object)) return Removal::kOther;
      client_.remove(path, {.uid = kubernetes::metadata_of(found, "uid"),
                            .resource_version = kubernetes::metadata_of(found, "resourceVersion")});
      return Removal::kRemoved;
    } catch (const ApiError& e) {
      if (!e.is_not_found()) throw;
      return Removal::kGone;
    }
  });
}

// A block whose name is that of another one: no agent made it, and it may be all that is left of a
// node's claim, as after a person wrote it anew.
std::optional<Object> misnamed(const Json& resource) {
  const auto spec = resource.is_object() ? resource.find("spec") : resource.end();
  auto out = spec == resource.end() ? std::nullopt : object_in(Kind::kBlock, *spec);
  if (!out) return out;
  out->node.clear();
  out->misnamed = kubernetes::metadata_of(resource, "name");
  return out->misnamed.empty() ? std::nullopt : out;
}

// Its name is taken, so nobody claims its block; but no node has it, and none is released.
std::optional<Object> readable(Kind kind, const Json& resource) {
  auto out = object_of_resource(kind, resource);
  if (out) return out;
  if (kind == Kind::kBlock) out = misnamed(resource);
  cni::log(cni::Level::kWarning,
           out ? "no node claims the addresses of an object that has not its block's name"
               : "passed over an object whose spec is malformed or not its name's",
           {{"kind", kNames[index_of(kind)]}, {"name", kubernetes::metadata_of(resource, "name")}});
  return out;
}

// A resource has many times the memory of what it says, so it goes with its page.
template <class Objects>
Client::Sink sink_of(Kind kind, Objects& out) {
  return {.begin = [&out] { out.clear(); },
          .take =
              [kind, &out](Json&& one) {
                if (auto object = readable(kind, one)) out.push_back(std::move(*object));
              }};
}

std::vector<Object> KubernetesEngine::list(Kind kind) {
  return as_error([&] {
    std::vector<Object> out;
    client_.each(collection_of(kind).path(), {}, sink_of(kind, out));
    return out;
  });
}

bool KubernetesEngine::has_node(const std::string& node) {
  return as_error([&] {
    try {
      client_.get(kubernetes::Collection{"v1", "nodes"}.path_of(node));
      return true;
    } catch (const ApiError& e) {
      if (!e.is_not_found()) throw;
      return false;
    }
  });
}

void KubernetesEngine::follow(const Follower& follower) {
  threads_.emplace_back([this, follower] { run(blocks_, Kind::kBlock, follower); });
  threads_.emplace_back([this, follower] { run(shortages_, Kind::kShortage, follower); });
}

void KubernetesEngine::run(Client& client, Kind kind, const Follower& follower) {
  const kubernetes::ListWatch* self = nullptr;
  std::deque<Object> objects;
  const auto pass_on = [kind](const Json& one, const auto& to) {
    if (const auto object = readable(kind, one)) to(*object);
  };
  kubernetes::ListWatch watch(
      client, collection_of(kind).path(), {},
      {.listed =
           [&](const std::vector<Json>&) {
             follower.listed(kind, {.objects = std::exchange(objects, {}),
                                    .revision = number_in(self->listed_version())});
           },
       .changed = [&](const Json& one) { pass_on(one, follower.changed); },
       .removed = [&](const Json& one) { pass_on(one, follower.removed); },
       .failed = [&](const std::exception& e,
                     std::chrono::milliseconds) { follower.failed(e.what()); },
       .items = sink_of(kind, objects)});
  self = &watch;
  watch.list_always();
  watch.run();
}

}  // namespace

kubernetes::Collection collection_of(Kind kind) { return {kGroup, kPlurals[index_of(kind)]}; }

std::optional<Object> object_of_resource(Kind kind, const Json& resource) {
  if (!resource.is_object()) return std::nullopt;
  const auto spec = resource.find("spec");
  if (spec == resource.end()) return std::nullopt;
  auto out = object_in(kind, *spec);
  if (!out || name_of(*out) != kubernetes::metadata_of(resource, "name")) return std::nullopt;
  out->version = number_in(kubernetes::metadata_of(resource, "resourceVersion"));
  return out;
}

Engine kubernetes_engine(const kubernetes::Access& access) {
  const auto engine = std::make_shared<KubernetesEngine>(access);
  return {.create = [engine](Object& object) { return engine->create(object); },
          .replace = [engine](const Object& from, Object& to) { return engine->replace(from, to); },
          .remove = [engine](const Object& object) { return engine->remove(object); },
          .list = [engine](Kind kind) { return engine->list(kind); },
          .has_node = [engine](const std::string& node) { return engine->has_node(node); },
          .follow = [engine](const Follower& follower) { engine->follow(follower); },
          .stop = [engine] { engine->stop(); },
          .name = "the API server",
          .at = {}};
}

}  // namespace block_agent

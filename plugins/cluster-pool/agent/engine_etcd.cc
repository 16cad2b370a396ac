#include "plugins/cluster-pool/agent/engine_etcd.h"

#include <etcd.grpc.pb.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/config/names.h"
#include "plugins/cluster-pool/agent/etcd_client.h"
#include "plugins/cluster-pool/agent/pause.h"

namespace block_agent {

namespace {

std::string joined(const std::vector<std::string>& endpoints) {
  std::string out;
  for (const std::string& one : endpoints) out += (out.empty() ? "'" : ", '") + one + "'";
  return out;
}

using cni::cat;

constexpr std::int64_t kPage = 1000;         // keys
constexpr std::size_t kMaxObjects = 50'000;  // of all kinds

// The first key that does not begin with the text: its last byte plus 1, as etcd's clients do it.
std::string end_of(std::string prefix) {
  prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

std::uint64_t unsigned_of(std::int64_t revision) {
  return revision > 0 ? static_cast<std::uint64_t>(revision) : 0;
}

// Without a readable value it says only what the key does.
std::optional<Object> place_in(std::string_view path) {
  const auto first = path.find('/'), last = path.rfind('/');
  if (first == path.npos || first == last) return std::nullopt;
  const std::string_view folder = path.substr(0, first), place = path.substr(last + 1);
  Object out{.network = std::string(path.substr(first + 1, last - first - 1))};
  if (!cni::is_network_name(out.network)) return std::nullopt;
  if (folder == "shortages") {
    out.kind = Kind::kShortage;
    out.node = place;
    return is_node_name(place) ? std::optional(out) : std::nullopt;
  }
  if (folder != "blocks" && folder != "pools") return std::nullopt;
  out.kind = folder == "blocks" ? Kind::kBlock : Kind::kPool;
  const auto ip = netlink::Ip::parse(place.substr(0, place.find('_')));
  if (!ip) return std::nullopt;
  out.cidr = {*ip, ip->bits()};
  return out;
}

class EtcdEngine {
 public:
  explicit EtcdEngine(const EtcdConf& conf) : client_(conf), prefix_(conf.prefix) {}
  ~EtcdEngine() {
    stop();
    if (thread_.joinable()) thread_.join();
  }
  EtcdEngine(const EtcdEngine&) = delete;
  EtcdEngine& operator=(const EtcdEngine&) = delete;

  std::optional<Object> create(Object& object);
  bool replace(const Object& from, Object& to);
  Removal remove(const Object& object);
  std::vector<Object> list(Kind kind);
  void follow(const Follower& follower) {
    thread_ = std::thread([this, follower] { run(follower); });
  }
  void stop() noexcept { client_.stop(); }

 private:
  struct Listed {
    std::string cluster;
    std::int64_t revision = 0;
  };
  std::string path(const Object& object) const { return cat(prefix_, "/", key_of(object)); }
  std::optional<Object> object_of(const etcdserverpb::KeyValue& pair) const;
  std::optional<std::int64_t> revision_of(const Object& object, bool* is_gone);
  etcdserverpb::TxnRequest change_of(const Object& object, std::int64_t revision) const;
  std::int64_t change(const Object& object, const etcdserverpb::TxnRequest& request);
  Listed list_below(const std::string& start, const std::function<void(Object&&)>& take);
  void run(const Follower& follower);
  void follow_once(const Follower& follower, Pauses& pauses);
  void take(const etcdserverpb::WatchResponse& answer, const Follower& follower) const;

  EtcdClient client_;
  const std::string prefix_;
  std::thread thread_;
};

std::optional<Object> EtcdEngine::object_of(const etcdserverpb::KeyValue& pair) const {
  auto out = object_of_key(prefix_, pair.key(), pair.value());
  if (out) out->version = unsigned_of(pair.mod_revision());
  return out;
}

std::optional<Object> EtcdEngine::create(Object& object) {
  const std::string key = path(object);
  etcdserverpb::TxnRequest request;
  auto& compare = *request.add_compare();
  compare.set_target(etcdserverpb::Compare::CREATE);
  compare.set_key(key);
  compare.set_create_revision(0);
  auto& put = *request.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(spec_of(object).dump());
  request.add_failure()->mutable_request_range()->set_key(key);
  const auto answer = client_.txn(request);
  if (answer.succeeded()) {
    object.version = unsigned_of(answer.header().revision());
    return std::nullopt;
  }
  if (answer.responses_size() == 1 && answer.responses(0).response_range().kvs_size() == 1) {
    if (auto found = object_of(answer.responses(0).response_range().kvs(0))) return found;
  }
  throw cni::Error(cni::Code::kTryAgainLater, cat("create key '", key, "': an odd answer of etcd"));
}

// The revision of the object if it is that claim.
std::optional<std::int64_t> EtcdEngine::revision_of(const Object& object, bool* is_gone) {
  etcdserverpb::RangeRequest get;
  get.set_key(path(object));
  get.set_limit(1);
  const auto found = *client_.range(get);
  *is_gone = found.kvs_size() == 0;
  if (*is_gone) return std::nullopt;
  const auto there = object_of(found.kvs(0));
  if (!there || !there->is_claim_of(object)) return std::nullopt;
  return found.kvs(0).mod_revision();
}

// A transaction that changes the key if it still has the revision.
etcdserverpb::TxnRequest EtcdEngine::change_of(const Object& object, std::int64_t revision) const {
  etcdserverpb::TxnRequest out;
  auto& compare = *out.add_compare();
  compare.set_target(etcdserverpb::Compare::MOD);
  compare.set_key(path(object));
  compare.set_mod_revision(revision);
  return out;
}

std::int64_t EtcdEngine::change(const Object& object, const etcdserverpb::TxnRequest& request) {
  const auto answer = client_.txn(request);
  if (answer.succeeded()) return answer.header().revision();
  throw cni::Error(cni::Code::kTryAgainLater,
                   cat("change key '", path(object), "': it changed at the same time"));
}

bool EtcdEngine::replace(const Object& from, Object& to) {
  bool is_gone = false;
  const auto revision = revision_of(from, &is_gone);
  if (!revision) return false;
  auto request = change_of(from, *revision);
  auto& put = *request.add_success()->mutable_request_put();
  put.set_key(path(to));
  put.set_value(spec_of(to).dump());
  to.version = unsigned_of(change(from, request));
  return true;
}

Removal EtcdEngine::remove(const Object& object) {
  bool is_gone = false;
  const auto revision = revision_of(object, &is_gone);
  if (!revision) return is_gone ? Removal::kGone : Removal::kOther;
  auto request = change_of(object, *revision);
  request.add_success()->mutable_request_delete_range()->set_key(path(object));
  change(object, request);
  return Removal::kRemoved;
}

// Page by page, as of one revision.
EtcdEngine::Listed EtcdEngine::list_below(const std::string& start,
                                          const std::function<void(Object&&)>& take) {
  Listed out;
  std::size_t taken = 0;
  etcdserverpb::RangeRequest request;
  request.set_key(start);
  request.set_range_end(end_of(start));
  request.set_limit(kPage);
  for (bool more = true; more;) {
    const auto answer = client_.range(request);
    if (!answer) {  // of another's values: ours are small
      request.set_limit(std::max<std::int64_t>(request.limit() / 4, 1));
      continue;
    }
    const auto& page = *answer;
    for (const auto& pair : page.kvs()) {
      auto one = object_of(pair);
      if (!one) continue;
      take(std::move(*one));
      ++taken;
    }
    if (taken > kMaxObjects) {
      throw cni::Error(cni::Code::kInternal, cat("read keys: more than ", kMaxObjects));
    }
    if (out.revision == 0) {
      out.revision = page.header().revision();
      out.cluster = cat(page.header().cluster_id());
      request.set_revision(out.revision);
    }
    more = page.more() && page.kvs_size() > 0;
    if (more) request.set_key(page.kvs(page.kvs_size() - 1).key() + '\0');
  }
  return out;
}

std::vector<Object> EtcdEngine::list(Kind kind) {
  std::vector<Object> out;
  list_below(cat(prefix_, "/", folder_of(kind), "/"),
             [&](Object&& one) { out.push_back(std::move(one)); });
  return out;
}

void EtcdEngine::run(const Follower& follower) {
  Pauses pauses;
  do {
    try {
      follow_once(follower, pauses);
    } catch (const std::exception& e) {
      follower.failed(e.what());
    }
  } while (client_.wait(pauses.next()));
}

// Always from a new list: after a restore, a watch from a revision that does not exist any more
// would wait in silence until etcd gets there.
void EtcdEngine::follow_once(const Follower& follower, Pauses& pauses) {
  std::map<Kind, std::deque<Object>> objects;
  const auto all =
      list_below(prefix_ + "/", [&](Object&& one) { objects[one.kind].push_back(std::move(one)); });
  for (const Kind kind : {Kind::kBlock, Kind::kShortage}) {
    follower.listed(kind, {.objects = std::exchange(objects[kind], {}),
                           .cluster = all.cluster,
                           .revision = unsigned_of(all.revision)});
  }
  etcdserverpb::WatchCreateRequest request;
  request.set_key(prefix_ + "/");
  request.set_range_end(end_of(prefix_ + "/"));
  request.set_start_revision(all.revision + 1);
  request.set_progress_notify(true);
  client_.watch(request, [&](const etcdserverpb::WatchResponse& answer) {
    pauses.reset();
    if (cat(answer.header().cluster_id()) != all.cluster) {
      throw cni::Error(cni::Code::kTryAgainLater, "watch keys: another cluster answers");
    }
    take(answer, follower);
  });
}

void EtcdEngine::take(const etcdserverpb::WatchResponse& answer, const Follower& follower) const {
  for (const auto& event : answer.events()) {
    const auto object = object_of(event.kv());
    if (!object || object->kind == Kind::kPool) continue;
    (event.type() == etcdserverpb::Event::DELETE ? follower.removed : follower.changed)(*object);
  }
}

}  // namespace

std::optional<Object> object_of_key(std::string_view prefix, std::string_view key,
                                    std::string_view value) {
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  if (!key.starts_with('/')) return std::nullopt;
  key.remove_prefix(1);
  auto place = place_in(key);
  if (!place) return std::nullopt;
  auto out = object_in_text(place->kind, value);
  if (out && key_of(*out) == key) return out;
  if (place->kind != Kind::kShortage) place->node.clear();
  return place;
}

Engine etcd_engine(const EtcdConf& conf) {
  const auto engine = std::make_shared<EtcdEngine>(conf);
  return {.create = [engine](Object& object) { return engine->create(object); },
          .replace = [engine](const Object& from, Object& to) { return engine->replace(from, to); },
          .remove = [engine](const Object& object) { return engine->remove(object); },
          .list = [engine](Kind kind) { return engine->list(kind); },
          .has_node = {},
          .follow = [engine](const Follower& follower) { engine->follow(follower); },
          .stop = [engine] { engine->stop(); },
          .name = "etcd",
          .at = joined(conf.endpoints)};
}

}  // namespace block_agent

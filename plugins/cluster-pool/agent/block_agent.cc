#include "plugins/cluster-pool/agent/block_agent.h"

#include <sys/inotify.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "kubernetes/access.h"
#include "libcni/common/error.h"
#include "libcni/common/lock.h"
#include "libcni/config/json.h"
#include "libcni/daemon/event_loop.h"
#include "libcni/daemon/folder_watch.h"
#include "libcni/daemon/line_server.h"
#include "libcni/daemon/log.h"
#include "netlink/types/fd.h"
#include "plugins/cluster-pool/agent/dead_nodes.h"
#include "plugins/cluster-pool/agent/engine_etcd.h"
#include "plugins/cluster-pool/agent/engine_kubernetes.h"
#include "plugins/cluster-pool/agent/keeper.h"
#include "plugins/cluster-pool/agent/metrics.h"
#include "plugins/cluster-pool/agent/workers.h"
#include "plugins/leases/host.h"

namespace block_agent {

namespace {

using cni::cat;
using cni::Level;
using Document = nlohmann::ordered_json;

constexpr cni::BootTime kSlowPoll = std::chrono::minutes(1);
constexpr cni::BootTime kMetricsPause = std::chrono::seconds(1);
constexpr cni::BootTime kTurnPause = std::chrono::seconds(1);
constexpr int kLifeTurns = 30;  // in which an agent that lives answers
constexpr std::chrono::milliseconds kLifeTurn{100};
constexpr std::size_t kThreads = 32;  // networks that wait for the engine at a time
constexpr std::string_view kWantEnd = ".want";
constexpr const char* kNodesKey = "Node objects";  // no name of a network
constexpr const char* kMachineFile = ".machine";
constexpr const char* kTurnFile = ".agent";
constexpr const char* kStarting = "this agent is just starting";

Engine engine_of(const Conf& conf) {
  if (conf.etcd) return etcd_engine(*conf.etcd);
  return kubernetes_engine(conf.kubernetes->kubeconfig.empty()
                               ? kubernetes::in_cluster()
                               : kubernetes::from_kubeconfig(conf.kubernetes->kubeconfig));
}

// By machine-id(5); without it by a number that was chosen at the first start.
std::string machine_of(const blocks::Folder& folder) {
  const std::string id = leases::Host::current().machine();
  if (id != leases::kUnknownMachine) return id;
  if (const auto file = folder.dir().read(kMachineFile)) return file->content;
  folder.dir().replace_synced(kMachineFile, new_claim(), cat(kMachineFile, ".new"));
  return folder.dir().read(kMachineFile)->content;
}

void end_process(const std::exception& e) {
  cni::log(Level::kError, "end, because nobody reaches the socket", {{"error", e.what()}});
  std::_Exit(EXIT_FAILURE);
}

}  // namespace

struct BlockAgent::Impl {
  Impl(Conf of, const Paths& paths, std::function<void(const std::string&)> to)
      : conf(std::move(of)),
        folder(blocks::Folder::create(paths.folder)),
        self{conf.node, machine_of(folder)},
        engine(engine_of(conf)),
        metrics(std::move(to)),
        watch(IN_MOVED_TO | IN_CLOSE_WRITE),
        server(
            loop, paths.socket,
            [this](std::uint64_t client, const std::string& line) { answer(client, line); },
            end_process) {}

  void start();
  void stop();
  bool is_its_turn();
  bool set_obstacle(const std::string& why);  ///< true: it is another one
  void begin();
  void follow();
  void wake(const std::string& network);
  void wake_all();
  void worked(const std::string& network, cni::BootTime next);
  void wake_due();
  void poll();
  void look_at_nodes();
  void write_metrics();
  void answer(std::uint64_t client, const std::string& line);
  std::string answer_to(const std::string& line);
  Document release(const Document& question);
  std::size_t release(const std::string& node, bool is_forced);
  Document status();

  const Conf conf;
  const blocks::Folder folder;
  const Self self;
  cni::EventLoop loop;
  Engine engine;
  netlink::Fd turn;              ///< a lock, as long as this agent works
  std::optional<Keeper> keeper;  ///< from then on
  std::optional<DeadNodes> dead;
  const std::function<void(const std::string&)> metrics;
  cni::FolderWatch watch;
  cni::LineServer server;
  std::map<std::string, cni::BootTime> due;  ///< when a network is to be worked on
  const char turn_at = 0, work_at = 0, poll_at = 0, nodes_at = 0,
             metrics_at = 0;  ///< owners of times
  bool are_metrics_due = false, has_waited = false;
  std::atomic<bool> is_serving = false;  ///< there is a keeper
  std::mutex obstacle_mutex;
  std::string obstacle = kStarting;  ///< why it does not serve; "": another agent does
  std::atomic<bool> is_ending = false;
  std::thread thread;
  Workers workers{kThreads};
};

void BlockAgent::Impl::start() {
  loop.after(cni::BootTime(0), &turn_at, [this] { begin(); });
  thread = std::thread([this] {
    loop.run([this](const std::exception& e) {
      cni::log(Level::kError, "serve blocks", {{"error", e.what()}});
      set_obstacle(e.what());
    });
  });
}

bool BlockAgent::Impl::set_obstacle(const std::string& why) {
  const std::lock_guard hold(obstacle_mutex);
  return std::exchange(obstacle, why) != why;
}

// One agent of a node at a time: two would each take the other's claims for left over.
bool BlockAgent::Impl::is_its_turn() {
  try {
    turn = cni::take_lock(folder.dir(), std::chrono::milliseconds(0), kTurnFile);
    set_obstacle(kStarting);  // not the agent before it any more
    return true;
  } catch (const cni::Error& e) {
    set_obstacle({});
    if (!std::exchange(has_waited, true)) {
      cni::log(Level::kWarning, "wait for the end of the agent that serves this node's blocks",
               {{"error", e.what()}});
    }
  } catch (const netlink::Error& e) {  // of the file of the lock
    if (set_obstacle(e.what())) {
      cni::log(Level::kError, "serve no blocks", {{"error", e.what()}});
    }
  }
  return false;
}

void BlockAgent::Impl::begin() {
  loop.after(kTurnPause, &turn_at, [this] { begin(); });  // also after an error
  if (!turn && !is_its_turn()) return;
  if (!keeper) {
    keeper.emplace(self, Keeper::Times{conf.idle, conf.settle}, engine,
                   blocks::Folder::create(folder.path()));
  }
  watch.add(folder.path());
  if (watch.fd() >= 0) {
    loop.watch(watch.fd(), [this] {
      const auto names = watch.take();  // of a want alone: the other files are the agent's own
      if (!names) return wake_all();
      for (const std::string& name : *names) {
        if (name.ends_with(kWantEnd)) wake(name.substr(0, name.size() - kWantEnd.size()));
      }
    });
  }
  poll();
  if (engine.has_node && !dead) {
    dead.emplace(conf.node, conf.node_gone,
                 keeper->with_view([](const View&, const Engine& outside) { return &outside; }));
    loop.after(dead->pause(), &nodes_at, [this] { look_at_nodes(); });
  }
  follow();
  loop.at(cni::kNever, &turn_at, {});
  is_serving = true;
  cni::log(Level::kInfo, "serve blocks", {{"node", conf.node}, {"engine", engine.name}});
}

void BlockAgent::Impl::stop() {
  is_ending = true;
  engine.stop();
  loop.stop();
  if (thread.joinable()) thread.join();
  workers.stop();
}

// From threads of the engine into the loop's.
void BlockAgent::Impl::follow() {
  engine.follow({.listed =
                     [this](Kind kind, Snapshot snapshot) {
                       const auto all = std::make_shared<Snapshot>(std::move(snapshot));
                       loop.post([this, kind, all] {
                         keeper->listed(kind, std::move(*all), cni::EventLoop::now());
                         wake_all();
                       });
                     },
                 .changed =
                     [this](const Object& one) {
                       loop.post([this, one] {
                         keeper->changed(one);
                         wake(one.network);
                       });
                     },
                 .removed =
                     [this](const Object& one) {
                       loop.post([this, one] {
                         keeper->removed(one);
                         wake(one.network);
                       });
                     },
                 .failed =
                     [this](const std::string& error) {
                       loop.post([this, error] {
                         keeper->failed(error);
                         wake_all();
                       });
                     }});
}

// In a thread of its own, because a call of the engine may take long: other networks go on.
void BlockAgent::Impl::wake(const std::string& network) {
  workers.run(network, [this, network] {
    const auto next = keeper->work(network, cni::EventLoop::now());
    loop.post([this, network, next] { worked(network, next); });
  });
}

void BlockAgent::Impl::wake_all() {
  for (const std::string& network : keeper->networks()) wake(network);
}

void BlockAgent::Impl::worked(const std::string& network, cni::BootTime next) {
  due.erase(network);
  if (next != cni::kNever) due[network] = next;
  wake_due();
  if (!metrics || std::exchange(are_metrics_due, true)) return;
  loop.after(kMetricsPause, &metrics_at, [this] { write_metrics(); });
}

void BlockAgent::Impl::wake_due() {
  auto next = cni::kNever;
  const auto now = cni::EventLoop::now();
  std::erase_if(due, [&](const auto& one) {
    if (one.second > now) next = std::min(next, one.second);
    if (one.second <= now) wake(one.first);
    return one.second <= now;
  });
  loop.at(next, &work_at, [this] { wake_due(); });
}

// What inotify cannot report: the folder was removed, or the node had no watch left for it.
void BlockAgent::Impl::poll() {
  loop.after(kSlowPoll, &poll_at, [this] { poll(); });
  if (folder.dir().is_removed()) {
    cni::log(Level::kError, "end, because the folder of blocks was removed",
             {{"error", folder.path()}});
    std::_Exit(EXIT_FAILURE);
  }
  watch.add(folder.path());
  wake_all();
}

void BlockAgent::Impl::look_at_nodes() {
  loop.after(dead->pause(), &nodes_at, [this] { look_at_nodes(); });
  workers.run(kNodesKey, [this] {
    keeper->with_view([this](const View& view, const Engine&) {
      if (view.is_listed()) dead->look(view, cni::EventLoop::now());
    });
  });
}

void BlockAgent::Impl::write_metrics() {
  are_metrics_due = false;
  metrics(metrics_text(keeper->counts(), keeper->totals()));
}

std::size_t BlockAgent::Impl::release(const std::string& node, bool is_forced) {
  const auto refuse = [](const std::string& msg, const std::string& details) {
    throw cni::Error(cni::Code::kInvalidConfig, msg, details);
  };
  if (!is_node_name(node)) refuse(cat("release '", node, "': not the name of a node"), "");
  if (node == conf.node && !is_forced) {
    refuse(cat("release '", node, "': it is this node"),
           "blocks of another machine of this name are released with --force");
  }
  if (node == conf.node) return release_blocks(engine, node, self.machine);
  if (is_forced) return release_blocks(engine, node);
  if (engine.has_node && engine.has_node(node)) {
    refuse(cat("release '", node, "': its Node object exists"),
           "kubectl delete node, or --force if its pods do not run any more");
  }
  return release_if_silent(engine, node, [this] {
    for (int i = 0; i < kLifeTurns && !is_ending; ++i) std::this_thread::sleep_for(kLifeTurn);
  });
}

// Later where the engine is asked.
void BlockAgent::Impl::answer(std::uint64_t client, const std::string& line) {
  const Document question = cni::try_parse_ordered_json(line);
  if (question.is_object() && question.value("verb", Document()) == "status") {
    return server.answer(client, answer_to(line));
  }
  workers.run(cat("client ", client), [this, client, line] {
    loop.post([this, client, text = answer_to(line)] { server.answer(client, text); });
  });
}

std::string BlockAgent::Impl::answer_to(const std::string& line) {
  Document out;
  try {
    const Document question = cni::try_parse_ordered_json(line);
    const Document verb = question.is_object() ? question.value("verb", Document()) : Document();
    if (verb == "status") {
      out = status();
    } else if (verb == "release" && question.value("node", Document()).is_string()) {
      out = cni::as_error([&] { return release(question); });
    } else {
      throw cni::Error(cni::Code::kDecodingFailure,
                       R"(expected {"verb": "release", "node": NODE, "force": BOOLEAN} or )"
                       R"({"verb": "status"})");
    }
  } catch (const cni::Error& e) {
    out["error"] = {{"code", static_cast<unsigned>(e.code())}, {"msg", e.what()}};
    if (!e.details().empty()) out["error"]["details"] = e.details();
  }
  return out.dump(-1, ' ', false, Document::error_handler_t::replace) + '\n';
}

Document BlockAgent::Impl::release(const Document& question) {
  const bool is_forced = question.value("force", Document()) == Document(true);
  const auto node = question["node"].get<std::string>();
  const std::size_t count = release(node, is_forced);
  cni::log(Level::kWarning, "released the blocks of a node",
           {{"node", node}, {"blocks", cat(count)}});
  return {{"released", count}};
}

Document BlockAgent::Impl::status() {
  Document out{{"node", conf.node}, {"engine", engine.name}, {"serves", is_serving.load()}};
  if (!is_serving) {
    const std::lock_guard hold(obstacle_mutex);
    if (!obstacle.empty()) out["why"] = obstacle;
    return out;
  }
  const Totals totals = keeper->totals();
  out["there"] = totals.is_engine_there;
  const auto silence = cni::EventLoop::now() - totals.contact;
  if (totals.contact != cni::BootTime(0)) out["contact"] = silence.count() / 1000;
  if (!totals.error.empty()) out["why"] = totals.error;
  out["networks"] = Document::array();
  for (const Count& one : keeper->counts()) {
    out["networks"].push_back({{"network", one.network},
                               {"held", one.held},
                               {"lost", one.lost},
                               {"addresses", one.addresses},
                               {"leases", one.leases}});
  }
  out["missing"] = Document::array();
  if (!dead) return out;
  const auto now = cni::EventLoop::now();
  for (const auto& [node, since] :
       keeper->with_view([this](const View&, const Engine&) { return dead->missing(); })) {
    out["missing"].push_back({{"node", node}, {"seconds", (now - since).count() / 1000}});
  }
  return out;
}

BlockAgent::BlockAgent(Conf conf, const Paths& paths,
                       std::function<void(const std::string&)> metrics)
    : impl_(std::make_unique<Impl>(std::move(conf), paths, std::move(metrics))) {
  impl_->start();
}

BlockAgent::~BlockAgent() { impl_->stop(); }

}  // namespace block_agent

#include "plugins/cluster-pool/agent/block_agent.h"

#include <sys/inotify.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
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
#include "plugins/leases/host.h"

namespace block_agent {

namespace {

using cni::cat;
using cni::Level;
using Document = nlohmann::ordered_json;

constexpr cni::BootTime kSlowPoll = std::chrono::minutes(1);
constexpr cni::BootTime kMetricsPause = std::chrono::seconds(1);
constexpr cni::BootTime kTurnPause = std::chrono::seconds(1);
constexpr const char* kMachineFile = ".machine";
constexpr const char* kTurnFile = ".agent";

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
        dead(conf.node, conf.node_gone, engine),
        metrics(std::move(to)),
        watch(IN_MOVED_TO | IN_CLOSE_WRITE),
        server(
            loop, paths.socket,
            [this](std::uint64_t client, const std::string& line) {
              server.answer(client, answer_to(line));
            },
            end_process) {}

  void start();
  void stop();
  bool is_its_turn();
  void begin();
  void follow();
  void work();
  void work_soon() {
    loop.after(cni::BootTime(0), &work_at, [this] { work(); });
  }
  void poll();
  void look_at_nodes();
  void write_metrics();
  std::string answer_to(const std::string& line);
  std::size_t release(const std::string& node, bool is_forced);

  const Conf conf;
  const blocks::Folder folder;
  const Self self;
  cni::EventLoop loop;
  Engine engine;
  netlink::Fd turn;              ///< a lock, as long as this agent works
  std::optional<Keeper> keeper;  ///< from then on
  DeadNodes dead;
  const std::function<void(const std::string&)> metrics;
  cni::FolderWatch watch;
  cni::LineServer server;
  const char turn_at = 0, work_at = 0, poll_at = 0, nodes_at = 0,
             metrics_at = 0;  ///< owners of times
  bool are_metrics_due = false, has_waited = false;
  std::thread thread;
};

void BlockAgent::Impl::start() {
  loop.after(cni::BootTime(0), &turn_at, [this] { begin(); });
  thread = std::thread([this] {
    loop.run([](const std::exception& e) {
      cni::log(Level::kError, "serve blocks", {{"error", e.what()}});
    });
  });
}

// One agent of a node at a time: two would each take the other's claims for left over.
bool BlockAgent::Impl::is_its_turn() {
  try {
    turn = cni::take_lock(folder.dir(), std::chrono::milliseconds(0), kTurnFile);
    return true;
  } catch (const cni::Error& e) {
    if (!std::exchange(has_waited, true)) {
      cni::log(Level::kWarning, "wait for the end of the agent that serves this node's blocks",
               {{"error", e.what()}});
    }
    return false;
  }
}

void BlockAgent::Impl::begin() {
  loop.after(kTurnPause, &turn_at, [this] { begin(); });  // also after an error
  if (!is_its_turn()) return;
  keeper.emplace(self, Keeper::Times{conf.idle, conf.settle}, engine,
                 blocks::Folder::create(folder.path()));
  loop.at(cni::kNever, &turn_at, {});
  watch.add(folder.path());
  if (watch.fd() >= 0) {
    loop.watch(watch.fd(), [this] {
      const auto names = watch.take();  // of a want alone: the other files are the agent's own
      const auto is_want = [](const std::string& name) { return name.ends_with(".want"); };
      if (!names || std::ranges::any_of(*names, is_want)) work_soon();
    });
  }
  poll();
  if (engine.has_node) loop.after(dead.pause(), &nodes_at, [this] { look_at_nodes(); });
  work_soon();
  follow();
  cni::log(Level::kInfo, "serve blocks", {{"node", conf.node}, {"engine", engine.name}});
}

void BlockAgent::Impl::stop() {
  engine.stop();
  loop.stop();
  if (thread.joinable()) thread.join();
}

// From threads of the engine into the loop's.
void BlockAgent::Impl::follow() {
  const auto pass_on = [this](auto&& change) {
    loop.post([this, change = std::forward<decltype(change)>(change)] {
      change();
      work_soon();
    });
  };
  engine.follow(
      {.listed =
           [this, pass_on](Kind kind, const Snapshot& all) {
             pass_on([this, kind, all] { keeper->listed(kind, all, cni::EventLoop::now()); });
           },
       .changed = [this,
                   pass_on](const Object& one) { pass_on([this, one] { keeper->changed(one); }); },
       .removed = [this,
                   pass_on](const Object& one) { pass_on([this, one] { keeper->removed(one); }); },
       .failed =
           [this, pass_on](const std::string& error) {
             pass_on([this, error] { keeper->failed(error); });
           }});
}

void BlockAgent::Impl::work() {
  const auto next = keeper->work(cni::EventLoop::now());
  loop.at(next, &work_at, [this] { work(); });
  if (!metrics || std::exchange(are_metrics_due, true)) return;
  loop.after(kMetricsPause, &metrics_at, [this] { write_metrics(); });
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
  work_soon();
}

void BlockAgent::Impl::look_at_nodes() {
  loop.after(dead.pause(), &nodes_at, [this] { look_at_nodes(); });
  if (!keeper->view().is_listed()) return;
  if (dead.look(keeper->view(), cni::EventLoop::now()) > 0) work_soon();
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
  if (engine.has_node && !is_forced && engine.has_node(node)) {
    refuse(cat("release '", node, "': its Node object exists"),
           "kubectl delete node, or --force if its pods do not run any more");
  }
  return release_blocks(engine, node);
}

std::string BlockAgent::Impl::answer_to(const std::string& line) {
  Document out;
  try {
    const Document question = cni::try_parse_ordered_json(line);
    const bool is_known = question.is_object() && question.value("verb", Document()) == "release" &&
                          question.value("node", Document()).is_string();
    if (!is_known) {
      throw cni::Error(cni::Code::kDecodingFailure,
                       R"(expected {"verb": "release", "node": NODE, "force": BOOLEAN})");
    }
    const bool is_forced = question.value("force", Document()) == Document(true);
    const auto node = question["node"].get<std::string>();
    const std::size_t count = cni::as_error([&] { return release(node, is_forced); });
    cni::log(Level::kWarning, "released the blocks of a node",
             {{"node", node}, {"blocks", cat(count)}});
    out = {{"released", count}};
  } catch (const cni::Error& e) {
    out["error"] = {{"code", static_cast<unsigned>(e.code())}, {"msg", e.what()}};
    if (!e.details().empty()) out["error"]["details"] = e.details();
  }
  return out.dump(-1, ' ', false, Document::error_handler_t::replace) + '\n';
}

BlockAgent::BlockAgent(Conf conf, const Paths& paths,
                       std::function<void(const std::string&)> metrics)
    : impl_(std::make_unique<Impl>(std::move(conf), paths, std::move(metrics))) {
  impl_->start();
}

BlockAgent::~BlockAgent() { impl_->stop(); }

}  // namespace block_agent

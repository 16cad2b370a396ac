// The client of the API server (kubernetes/) as a program: commands are lines of JSON on stdin,
// answers lines on stdout.
//   api_client KUBECONFIG|in-cluster:ROOT [DEADLINE-MS]
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kubernetes/client.h"
#include "kubernetes/list_watch.h"

namespace {

using kubernetes::Json;
using std::chrono::milliseconds;

void print(const Json& line) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  std::cout << line.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
}

Json error_of(const std::exception& e) {
  Json out = {{"error", e.what()}};
  if (const auto* const api = dynamic_cast<const kubernetes::ApiError*>(&e)) {
    out["status"] = api->status();
    out["reason"] = api->reason();
    out["passing"] = api->is_passing();
    if (api->retry_after()) out["retryAfter"] = api->retry_after()->count();
  }
  return out;
}

kubernetes::Query query_of(const Json& command) {
  kubernetes::Query out;
  const Json parameters = command.value("query", Json::object());
  for (const auto& [name, value] : parameters.items()) {
    out.emplace_back(name, value.get<std::string>());
  }
  return out;
}

Json names_of(const std::vector<Json>& items) {
  Json out = Json::array();
  for (const Json& item : items) out.push_back(item.at("metadata").at("name"));
  return out;
}

Json answer(kubernetes::Client& client, const Json& command) {
  const std::string verb = command.at("do"), path = command.value("path", "");
  const Json body = command.value("body", Json());
  if (verb == "get") return client.get(path);
  if (verb == "create") return client.create(path, body);
  if (verb == "replace") return client.replace(path, body);
  if (verb == "patch") return client.merge_patch(path, body);
  if (verb == "apply") return client.apply(path, body);
  if (verb == "remove") {
    client.remove(
        path, {.uid = command.value("uid", ""), .resource_version = command.value("version", "")});
    return "removed";
  }
  const auto listed = client.list(path, query_of(command));
  return {{"names", names_of(listed.items)}, {"version", listed.resource_version}};
}

// Prints what a ListWatch hands out.
void follow(kubernetes::Client& client, const Json& command) {
  kubernetes::ListWatch::Times times;
  times.resync = std::chrono::seconds(command.value("resync", 600));
  times.watch = std::chrono::seconds(command.value("watch", 290));
  times.grace = std::chrono::seconds(command.value("grace", 10));
  times.first = milliseconds(command.value("first", 100));
  times.most = milliseconds(command.value("most", 1000));
  const auto named = [](const char* what, const Json& object) {
    print({{"event", what},
           {"name", object.at("metadata").at("name")},
           {"labels", object["metadata"].value("labels", Json())}});
    if (object["metadata"]["name"] == "throw") throw std::runtime_error("the handler threw");
  };
  kubernetes::ListWatch watch(client, command.at("path"), query_of(command),
                              {.listed =
                                   [](const auto& items) {
                                     print({{"event", "listed"}, {"names", names_of(items)}});
                                   },
                               .changed = [&](const Json& object) { named("changed", object); },
                               .removed = [&](const Json& object) { named("removed", object); },
                               .failed =
                                   [](const std::exception& e, milliseconds pause) {
                                     Json line = error_of(e);
                                     line["event"] = "failed";
                                     line["pause"] = pause.count();
                                     print(line);
                                   }});
  watch.set_times(times);
  if (!command.value("lists", true)) watch.skip_lists();
  watch.run();
  print({{"event", "ended"}});
}

kubernetes::Access access_of(const std::string& where) {
  const std::string prefix = "in-cluster:";
  return where.starts_with(prefix) ? kubernetes::in_cluster(where.substr(prefix.size()))
                                   : kubernetes::from_kubeconfig(where);
}

void serve(kubernetes::Client& client) {
  std::vector<std::thread> threads;
  for (std::string line; std::getline(std::cin, line);) {
    const Json command = Json::parse(line);
    if (command.at("do") == "stop") {
      client.stop();
      continue;
    }
    threads.emplace_back([&client, command] {
      try {
        if (command.at("do") == "follow") return follow(client, command);
        print({{"id", command.at("id")}, {"answer", answer(client, command)}});
      } catch (const std::exception& e) {
        Json out = error_of(e);
        out["id"] = command.at("id");
        print(out);
      }
    });
  }
  client.stop();
  for (std::thread& one : threads) one.join();
}

}  // namespace

int main(int argc, char** argv) try {
  kubernetes::Limits limits;
  if (argc > 2) limits.deadline = milliseconds(std::stol(argv[2]));
  limits.page = 10;
  limits.body = 4U << 20;
  kubernetes::Client client(access_of(argv[1]), limits);
  print({{"ready", client.access().server}});
  serve(client);
  return 0;
} catch (const std::exception& e) {
  print({{"refused", e.what()}});
  return 1;
}

#include "plugins/devices/agent/nri/session.h"

#include <doctest/doctest.h>
#include <nri.pb.h>

#include "libcni/common/error.h"

using namespace devices::nri;

namespace {

// What a session has sent: messages of both connections.
std::vector<std::pair<std::uint32_t, Message>> sent_by(Session& session) {
  FrameReader frames;
  frames.add(session.take());
  std::vector<std::pair<std::uint32_t, Message>> out;
  while (const auto frame = frames.next()) {
    MessageReader messages;
    messages.add(frame->payload);
    while (const auto message = messages.next()) out.emplace_back(frame->connection, *message);
  }
  return out;
}

std::string call(std::uint32_t stream, const std::string& method, const std::string& payload = {}) {
  nri_wire::Request request;
  request.set_service("nri.pkg.api.v1alpha1.Plugin");
  request.set_method(method);
  request.set_payload(payload);
  std::string out;
  append_message(out, kPluginService, {stream, Kind::kRequest, request.SerializeAsString()});
  return out;
}

nri_wire::Response answer(Session& session) {
  const auto sent = sent_by(session);
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].first == kPluginService);
  nri_wire::Response out;
  REQUIRE(out.ParseFromString(sent[0].second.data));
  return out;
}

std::string pods(int count, bool more) {
  nri_wire::SynchronizeRequest out;
  for (int i = 0; i < count; ++i) out.add_pods()->set_id(std::to_string(i));
  out.set_more(more);
  return out.SerializeAsString();
}

const Identity kIdentity{"log", "07"};

}  // namespace

TEST_CASE("a session begins with the registration") {
  const Plugin plugin;
  Session session(kIdentity, plugin);
  const auto sent = sent_by(session);
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].first == kRuntimeService);
  nri_wire::Request request;
  REQUIRE(request.ParseFromString(sent[0].second.data));
  CHECK(request.service() == "nri.pkg.api.v1alpha1.Runtime");
  CHECK(request.method() == "RegisterPlugin");
}

TEST_CASE("Configure is served before the answer to the registration has come, with the mask") {
  std::string config;
  const Plugin plugin{.configured = [&](const Configuration& one) { config = one.config; }};
  Session session(kIdentity, plugin);
  session.take();
  nri_wire::ConfigureRequest request;
  request.set_config("a: b");
  session.receive(call(1, "Configure", request.SerializeAsString()));
  nri_wire::ConfigureResponse response;
  REQUIRE(response.ParseFromString(answer(session).payload()));
  CHECK(response.events() == 7);
  CHECK(config == "a: b");
}

TEST_CASE("a registration that the runtime refuses ends the session with its reason") {
  const Plugin plugin;
  Session session(kIdentity, plugin);
  nri_wire::Response response;
  response.mutable_status()->set_code(2);
  response.mutable_status()->set_message("invalid plugin events: 0x3800");
  std::string bytes;
  append_message(bytes, kRuntimeService, {1, Kind::kResponse, response.SerializeAsString()});
  CHECK_THROWS_WITH_AS(session.receive(bytes),
                       "register: the runtime refuses it: invalid plugin events: 0x3800",
                       cni::Error);
}

TEST_CASE("a list in parts is handed over once, and each part but the last asks for more") {
  std::vector<std::size_t> lists;
  const Plugin plugin{.synchronized = [&](const auto& all) { lists.push_back(all.size()); }};
  Session session(kIdentity, plugin);
  session.take();
  for (const bool more : {true, true, false}) {
    CHECK_FALSE(session.is_synchronized());
    session.receive(call(1, "Synchronize", pods(3, more)));
    nri_wire::SynchronizeResponse response;
    REQUIRE(response.ParseFromString(answer(session).payload()));
    CHECK(response.more() == more);
  }
  CHECK(session.is_synchronized());
  CHECK(lists == std::vector<std::size_t>{9});
}

TEST_CASE("a list of more sandboxes than a node can have is refused") {
  const Plugin plugin{.synchronized = [](const auto&) { FAIL("it is handed over"); }};
  Session session(kIdentity, plugin);
  session.take();
  session.receive(call(1, "Synchronize", pods(5'000, true)));
  CHECK(answer(session).status().code() == 0);
  session.receive(call(3, "Synchronize", pods(1, false)));
  CHECK(answer(session).status().code() == 3);
  CHECK_FALSE(session.is_synchronized());
}

TEST_CASE("an event comes by its own method or by StateChange, if the mask has it") {
  std::vector<Event> events;
  const Plugin plugin{.happened = [&](Event event, const Sandbox& sandbox, const Container*) {
    CHECK(sandbox.id == "s");
    events.push_back(event);
  }};
  Session session(kIdentity, plugin);
  session.take();
  nri_wire::PodEvent own;
  own.mutable_pod()->set_id("s");
  session.receive(call(1, "StopPodSandbox", own.SerializeAsString()));
  session.receive(call(3, "StopContainer", own.SerializeAsString()));
  nri_wire::StateChangeEvent old;
  old.mutable_pod()->set_id("s");
  for (const int number : {3, 7, 0, 99, -1}) {
    old.set_event(number);
    session.receive(call(5, "StateChange", old.SerializeAsString()));
  }
  CHECK(sent_by(session).size() == 7);
  CHECK(events == std::vector{Event::kStopSandbox, Event::kRemoveSandbox});
}

TEST_CASE("what throws in a call is its answer, and the session goes on") {
  const Plugin plugin{.create = [](const Sandbox&, const Container&) -> Adjustment {
    throw cni::Error(cni::Code::kInvalidConfig, std::string(5000, 'x'));
  }};
  Session session(kIdentity, plugin);
  session.take();
  session.receive(call(1, "CreateContainer"));
  const auto refused = answer(session);
  CHECK(refused.status().code() == 9);
  CHECK(refused.status().message().size() == 1024);
  session.receive(call(3, "Shutdown"));
  CHECK(answer(session).status().code() == 0);
}

TEST_CASE("frames of an unknown connection are dropped, an answer in place of a call is refused") {
  const Plugin plugin;
  Session session(kIdentity, plugin);
  session.take();
  std::string bytes;
  append_message(bytes, 9, {1, Kind::kRequest, "x"});
  session.receive(bytes);
  CHECK(session.take().empty());
  bytes.clear();
  append_message(bytes, kPluginService, {1, Kind::kResponse, ""});
  CHECK_THROWS_AS(session.receive(bytes), cni::Error);
}

#include "plugins/state/state_dir.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "plugins/state/fields.h"
#include "tests/unit/surroundings.h"

using plugins::StateOwner;

namespace {

struct Part {
  std::optional<int> number;
  std::vector<netlink::Ip> addresses;
  bool operator==(const Part&) const = default;
};

struct State {
  static constexpr const char* kDir = "/run/cni/none";
  StateOwner owner = {};
  std::uint8_t byte = 0;
  std::map<std::uint8_t, std::string> names = {};
  std::chrono::milliseconds end = std::chrono::milliseconds::max();
  Part part = {};
  bool operator==(const State&) const = default;

  std::string text() const;
  static std::optional<State> from(const std::string& text);
};
using StateDir = plugins::StateDir<State>;

const State kSample{.owner = {{"net", "c1", "net1"}, "/run/netns/pod", 4711},
                    .byte = 255,
                    .names = {{7, "seven"}, {0, ""}},
                    .end = std::chrono::milliseconds(5),
                    .part = {.number = -3, .addresses = {*netlink::Ip::parse("10.1.2.3")}}};

}  // namespace

template <>
inline constexpr auto plugins::kFields<Part> = std::tuple{
    plugins::Field{"number", &Part::number}, plugins::Field{"addresses", &Part::addresses}};
template <>
inline constexpr auto plugins::kFields<State> =
    std::tuple{plugins::Field{"", &State::owner}, plugins::Field{"byte", &State::byte},
               plugins::Field{"names", &State::names}, plugins::Field{"end", &State::end},
               plugins::Field{"part", &State::part}};

namespace {

std::string State::text() const { return plugins::json_text(*this); }
std::optional<State> State::from(const std::string& text) {
  return plugins::from_json_text<State>(text);
}

void write(const surroundings::Folder& dir, const std::string& name, const std::string& text) {
  std::ofstream(dir.file(name)) << text;
}

}  // namespace

TEST_CASE("a state is read back as it was written") {
  CHECK(State::from(kSample.text()) == kSample);
  CHECK(State::from(State{}.text()) == State{});
}

TEST_CASE("the owner's keys are at the root, and what is absent has none") {
  const auto doc = nlohmann::json::parse(State{.owner = kSample.owner}.text());
  CHECK(doc["containerID"] == "c1");
  CHECK(doc["netnsCookie"] == 4711);
  CHECK_FALSE(doc.contains("end"));
  CHECK(doc["part"] == nlohmann::json::parse(R"({"addresses": []})"));
}

TEST_CASE("JSON with a part missing, or of another type, is not understood") {
  for (const char* key : {"network", "containerID", "ifname", "netns", "netnsCookie", "byte"}) {
    auto doc = nlohmann::json::parse(kSample.text());
    doc.erase(key);
    CHECK_THROWS_AS_MESSAGE(static_cast<void>(State::from(doc.dump())), cni::Error, key);
    doc[key] = nlohmann::json::array({-1});
    CHECK_THROWS_AS_MESSAGE(static_cast<void>(State::from(doc.dump())), cni::Error, key);
  }
  for (const char* const wrong :
       {R"({"byte": 256})", R"({"names": [[1]]})", R"({"end": "x"})", R"({"netnsCookie": -1})",
        R"({"part": {"number": 4294967296}})"}) {
    auto doc = nlohmann::json::parse(kSample.text());
    doc.update(nlohmann::json::parse(wrong));
    CHECK_THROWS_AS_MESSAGE(static_cast<void>(State::from(doc.dump())), cni::Error, wrong);
  }
}

TEST_CASE("a state file that is cut off anywhere is none, and holds up no other") {
  const surroundings::Folder dir;
  const auto states = StateDir::create(dir.path());
  states.put(kSample);
  const std::string whole = kSample.text();
  StateOwner torn = kSample.owner;
  torn.key.ifname = "net2";
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write(dir, torn.key.tag(), whole.substr(0, length));
    CHECK_FALSE(states.read(torn));
    CHECK(states.all().size() == 1);
  }
  CHECK_FALSE(states.read_or_remove(torn));
  CHECK_FALSE(std::filesystem::exists(dir.file(torn.key.tag())));
}

TEST_CASE("a state of a later format is refused, and stays") {
  const surroundings::Folder dir;
  const auto states = StateDir::create(dir.path());
  states.put(kSample);
  auto doc = nlohmann::json::parse(kSample.text());
  for (const auto& format : {nlohmann::json(1), nlohmann::json("2")}) {
    doc["format"] = format;
    CHECK(State::from(doc.dump()) == kSample);
  }
  doc["format"] = 2;
  write(dir, kSample.owner.key.tag(), doc.dump());
  const std::string said = "read '" + dir.file(kSample.owner.key.tag()) +
                           "': a newer version of patchbay wrote it (format 2, this version reads "
                           "1): install that version again";
  CHECK_THROWS_WITH_AS(static_cast<void>(states.read(kSample.owner)), said.c_str(), cni::Error);
  CHECK_THROWS_AS(static_cast<void>(states.read_or_remove(kSample.owner)), cni::Error);
  CHECK(states.all().empty());
  CHECK(states.all_removing_others().empty());
  CHECK(cni::Dir::open(dir.path())->names() == std::vector{kSample.owner.key.tag()});
  CHECK_THROWS_AS(static_cast<void>(plugins::document_in("[{}, {\"format\": 2}]")), cni::Error);
}

TEST_CASE("JSON that is no state is named, and stays") {
  const surroundings::Folder dir;
  const auto states = StateDir::create(dir.path());
  const std::string file = kSample.owner.key.tag();
  for (const char* const text : {"{}", "[]", "null", R"({"network": "net"})"}) {
    CAPTURE(text);
    write(dir, file, text);
    CHECK_THROWS_AS(static_cast<void>(states.read_or_remove(kSample.owner)), cni::Error);
    CHECK(states.all().empty());
    CHECK(states.all_removing_others().empty());
    CHECK(cni::Dir::open(dir.path())->names() == std::vector{file});
  }
  const std::string said = "read '" + dir.file(file) +
                           "': this version of patchbay does not understand it (containerID: "
                           "expected a string: the key is missing): install the version that wrote "
                           "it";
  CHECK_THROWS_WITH_AS(static_cast<void>(states.read(kSample.owner)), said.c_str(), cni::Error);
}

TEST_CASE("a state replaces the earlier one and leaves nothing aside") {
  const surroundings::Folder dir;
  const auto states = StateDir::create(dir.path());
  State state = kSample;
  states.put(state);
  state.byte = 1;
  states.put(state);
  CHECK(states.read(state.owner) == state);
  CHECK(states.all() == std::vector{state});
  write(dir, state.owner.key.tag() + ".new", "half");  // by a process that was killed
  states.remove(state.owner);
  CHECK(cni::Dir::open(dir.path())->names().empty());
}

TEST_CASE("of a directory without lock, what is no state is removed") {
  const surroundings::Folder dir;
  const auto states = StateDir::create(dir.path());
  states.put(kSample);
  write(dir, "other", kSample.text());
  write(dir, "half", "{");
  CHECK(states.all_removing_others().size() == 1);
  CHECK(cni::Dir::open(dir.path())->names() == std::vector{kSample.owner.key.tag()});
}

TEST_CASE("a state is undone to the earlier one, or to none") {
  const surroundings::Folder dir;
  const auto states = StateDir::create(dir.path());
  {
    cni::Undo undo;
    plugins::put_state(states, std::optional<State>(), kSample, undo);
    CHECK(states.read(kSample.owner) == kSample);
    State next = kSample;
    next.byte = 1;
    {
      cni::Undo inner;
      plugins::put_state(states, std::optional(kSample), next, inner);
      CHECK(states.read(kSample.owner) == next);
    }
    CHECK(states.read(kSample.owner) == kSample);
  }
  CHECK_FALSE(states.read(kSample.owner));
}

TEST_CASE("a state is of its namespace, or of any where the kernel does not say") {
  CHECK(StateOwner{.cookie = 5}.is_in(5));
  CHECK_FALSE(StateOwner{.cookie = 5}.is_in(6));
  CHECK(StateOwner{.cookie = 5}.is_in(0));
  CHECK(StateOwner{}.is_in(6));
}

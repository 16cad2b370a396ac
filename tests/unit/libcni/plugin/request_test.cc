#include "libcni/plugin/request.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/libcni/reading.h"

using namespace reading;
using cni::Code;
using cni::Command;
using cni::Version;
using surroundings::file_with;

namespace {

std::string repeated(std::string_view piece, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += piece;
  return out;
}

}  // namespace

TEST_CASE("a request holds what the runtime said") {
  const Request request = read(with(env_for("ADD"), "CNI_PATH", "/a:/b::/c:"));
  CHECK(request.command == Command::kAdd);
  CHECK(request.version == Version::k1_1_0);
  CHECK(request.network == "net");
  CHECK(request.container_id == "id1");
  CHECK(request.ifname == "eth0");
  CHECK(request.netns == "/run/netns/x");
  CHECK(request.args == "A=1");
  CHECK(request.path == std::vector<std::string>{"/a", "/b", "/c"});
  CHECK(request.input == kConf);
  CHECK(request.conf->at("type") == "fake");
  CHECK(request.env.at("CNI_COMMAND") == "ADD");
}

TEST_CASE("each verb requires its variables, and no others") {
  const struct {
    const char *command, *missing;
  } table[] = {
      {"ADD", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"},
      {"CHECK", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"},
      {"DEL", "CNI_CONTAINERID,CNI_IFNAME,CNI_PATH"},
      {"GC", "CNI_PATH"},
      {"STATUS", "CNI_PATH"},
  };
  for (const auto& row : table) {
    CAPTURE(row.command);
    const Refusal got = refusal({{"CNI_COMMAND", row.command}});
    CHECK(got.code == 4);
    CHECK(got.msg == std::string("required env variables [") + row.missing + "] missing");
    // Each of them alone, empty: empty is missing.
    std::string names = row.missing;
    for (std::size_t at = 0; at < names.size();) {
      const auto comma = std::min(names.find(',', at), names.size());
      const std::string name = names.substr(at, comma - at);
      CHECK(refusal(with(env_for(row.command), name, "")).msg ==
            "required env variables [" + name + "] missing");
      at = comma + 1;
    }
    CHECK(refusal(env_for(row.command)).code == 0);
  }
}

TEST_CASE("a missing command is reported as a missing variable") {
  CHECK(refusal({}).msg == "required env variables [CNI_COMMAND] missing");
  CHECK(refusal({}).code == 4);
  CHECK(refusal({{"CNI_COMMAND", ""}}).msg == "required env variables [CNI_COMMAND] missing");
}

TEST_CASE("DEL takes an absent namespace, GC and STATUS take no attachment") {
  CHECK(read(without(env_for("DEL"), {"CNI_NETNS"})).netns.empty());
  for (const char* command : {"GC", "STATUS"}) {
    CAPTURE(command);
    Env env = with(env_for(command), "CNI_CONTAINERID", "b a d");
    env = with(env, "CNI_IFNAME", "too long for an interface");
    const Request request = read(env);
    CHECK(request.container_id.empty());
    CHECK(request.ifname.empty());
  }
}

TEST_CASE("VERSION needs nothing and does not read stdin") {
  const auto in = file_with("not JSON");
  Request request;
  request.read({{"CNI_COMMAND", "VERSION"}}, in.get());
  CHECK(request.command == Command::kVersion);
  CHECK(surroundings::content_of(in) == "not JSON");
  CHECK_NOTHROW(request.read({{"CNI_COMMAND", "VERSION"}}, -1));
}

TEST_CASE("a container ID has the spec's alphabet") {
  for (const char* id : {"a", "A", "0", "a_b.c-d", "0123456789abcdef0123456789abcdef"}) {
    CAPTURE(id);
    CHECK(refusal(with(env_for("ADD"), "CNI_CONTAINERID", id)).code == 0);
  }
  CHECK(refusal(with(env_for("ADD"), "CNI_CONTAINERID", std::string(5000, 'a'))).code == 0);
  for (const char* id : {"_a", ".a", "-a", "..", "a/b", "a b", "a\n", "\xc3\xa4", "a:b", "a%"}) {
    CAPTURE(id);
    for (const char* command : {"ADD", "CHECK", "DEL"}) {
      const Refusal got = refusal(with(env_for(command), "CNI_CONTAINERID", id));
      CHECK(got.code == 4);
      CHECK(got.msg == "invalid characters in containerID");
      CHECK(got.details == id);
    }
  }
}

TEST_CASE("an interface name is one that the kernel takes") {
  for (const char* name : {"e", "eth0", "exactly15bytes_", "eth0.5", "...", "e@h", "\xc3\xa4"}) {
    CAPTURE(name);
    CHECK(refusal(with(env_for("ADD"), "CNI_IFNAME", name)).code == 0);
  }
  const struct {
    std::string name;
    const char* msg;
  } table[] = {
      {"sixteen_bytes_xx", "interface name is too long"},
      {repeated("\xc3\xa4", 8), "interface name is too long"},  // bytes count, not characters
      {"sixteen_bytes/ x", "interface name is too long"},       // length comes first
      {".", "interface name is . or .."},
      {"..", "interface name is . or .."},
      {"a/b", "interface name contains / or : or whitespace characters"},
      {"eth%d", "interface name contains %"},
      {"%", "interface name contains %"},
      {"a:b", "interface name contains / or : or whitespace characters"},
      {"a b", "interface name contains / or : or whitespace characters"},
      {"a\tb", "interface name contains / or : or whitespace characters"},
      {"a\nb", "interface name contains / or : or whitespace characters"},
      {"a\vb", "interface name contains / or : or whitespace characters"},
      {"a\xc2\xa0", "interface name contains / or : or whitespace characters"},      // NBSP
      {"a\xc2\x85", "interface name contains / or : or whitespace characters"},      // NEL
      {"a\xe2\x80\x89", "interface name contains / or : or whitespace characters"},  // thin space
      {"a\xe3\x80\x80", "interface name contains / or : or whitespace characters"},  // ideographic
  };
  for (const auto& row : table) {
    CAPTURE(row.name);
    for (const char* command : {"ADD", "CHECK", "DEL"}) {
      const Refusal got = refusal(with(env_for(command), "CNI_IFNAME", row.name));
      CHECK(got.code == 4);
      CHECK(got.msg == row.msg);
    }
  }
  CHECK(refusal(with(env_for("ADD"), "CNI_IFNAME", "sixteen_bytes_xx")).details ==
        "interface name should be less than 16 characters");
}

TEST_CASE("a network name has the spec's alphabet") {
  for (const char* name : {"a", "A.b-c_d", "9"}) {
    CAPTURE(name);
    CHECK(refusal(env_for("ADD"), cni::cat(R"({"name": ")", name, "\"}")).code == 0);
  }
  for (const char* name : {"_a", "-a", ".", "..", "a/b", "../x", "a b", "\xc3\xa4"}) {
    CAPTURE(name);
    for (const char* command : kAll) {
      const Refusal got = refusal(env_for(command), cni::cat(R"({"name": ")", name, "\"}"));
      CHECK(got.code == 7);
      CHECK(got.msg == "invalid characters found in network name");
      CHECK(got.details == name);
    }
  }
  CHECK(refusal(env_for("ADD"), R"({"name": "a\u0000b"})").code == 7);
}

TEST_CASE("a missing network name is said for every verb") {
  for (const char* command : kAll) {
    for (const char* input : {"{}", R"({"name": ""})", R"({"name": null})"}) {
      CAPTURE(command);
      CAPTURE(input);
      const Refusal got = refusal(env_for(command), input);
      CHECK(got.code == 7);
      CHECK(got.msg == "missing network name");
      CHECK(got.details.empty());
    }
  }
}

TEST_CASE("what is not a JSON object on stdin is a decoding failure") {
  for (const char* input : {"", " ", "{", "{]", "[]", "5", "null", "\"x\"", "{} {}",
                            R"({"name": "a"} x)", R"({"name": 5})", R"({"name": ["a"]})",
                            R"({"name": "a",})", R"({"name": "a\xff"})", "// c\n{}"}) {
    CAPTURE(input);
    for (const char* command : kAll) CHECK(refusal(env_for(command), input).code == 6);
  }
  CHECK(refusal(env_for("ADD"), "").msg.starts_with("the network config on stdin is not JSON: "));
  CHECK(refusal(env_for("ADD"), "{\n\"a\": }").msg.find("line 2, column 6") != std::string::npos);
  CHECK(refusal(env_for("ADD"), "[]").msg == "the network config on stdin is not a JSON object");
  CHECK(refusal(env_for("ADD"), R"({"name": 5})").msg == "name: expected a string: 5");
}

TEST_CASE("a config nested beyond reason is refused and does not exhaust the stack") {
  const std::string deep = repeated("[", 200'000) + repeated("]", 200'000);
  const Refusal got = refusal(env_for("ADD"), R"({"cniVersion": "1.1.0", "name": )" + deep + "}");
  CHECK(got.code == 6);
  const std::string objects = repeated("{\"a\":", 200'000) + "1" + repeated("}", 200'000);
  CHECK(refusal(env_for("ADD"), R"({"name": "n", "x": )" + objects + "}").code == 6);
  const std::string shallow = repeated("[", 100) + repeated("]", 100);
  CHECK(refusal(env_for("ADD"), R"({"name": "n", "x": )" + shallow + "}").code == 0);
  CHECK(
      refusal(env_for("ADD"), R"({"name": "n", "x": ")" + repeated("[{\\\"", 5000) + "\"}").code ==
      0);
}

TEST_CASE("stdin that cannot be read is an I/O failure") {
  Request request;
  try {
    request.read(env_for("ADD"), -1);
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.code() == Code::kIoFailure);
    CHECK(std::string(e.what()) == "error reading from stdin: read 'stdin': bad file descriptor");
  }
}

TEST_CASE("an unknown command is said after stdin was understood") {
  const Refusal got = refusal(with({}, "CNI_COMMAND", "PING"));
  CHECK(got.code == 4);
  CHECK(got.msg == "unknown CNI_COMMAND: PING");
  CHECK(refusal({{"CNI_COMMAND", "add"}}).msg == "unknown CNI_COMMAND: add");
  CHECK(refusal({{"CNI_COMMAND", "PING"}}, "").code == 6);
  CHECK(refusal({{"CNI_COMMAND", "PING"}}, "{}").code == 7);
}

TEST_CASE("a validator wins over the list of missing variables") {
  const Env env{{"CNI_COMMAND", "ADD"}, {"CNI_CONTAINERID", "b/d"}};
  CHECK(refusal(env).msg == "invalid characters in containerID");
  CHECK(refusal({{"CNI_COMMAND", "ADD"}, {"CNI_IFNAME", ".."}}).msg == "interface name is . or ..");
}

TEST_CASE("the container ID is validated before the interface name") {
  CHECK(refusal(with(with(env_for("ADD"), "CNI_CONTAINERID", "-"), "CNI_IFNAME", "..")).msg ==
        "invalid characters in containerID");
}

TEST_CASE("the environment is checked before stdin, the name before the version") {
  CHECK(refusal(without(env_for("ADD"), {"CNI_PATH"}), "not JSON").code == 4);
  CHECK(refusal(env_for("ADD"), R"({"cniVersion": "9.9.9"})").msg == "missing network name");
  CHECK(refusal(env_for("CHECK"), R"({"cniVersion": "x"})").msg == "missing network name");
  CHECK(refusal(env_for("ADD"), R"({"cniVersion": 5, "name": "n"})").msg ==
        "cniVersion: expected a string: 5");
  CHECK(refusal({{"CNI_COMMAND", "PING"}}, R"({"cniVersion": "9.9.9", "name": "n"})").code == 4);
}

TEST_CASE("what JSON cannot carry into the result is refused by ADD alone") {
  for (const char* variable : {"CNI_IFNAME", "CNI_NETNS"}) {
    CAPTURE(variable);
    const Refusal got = refusal(with(env_for("ADD"), variable, "eth\xff"));
    CHECK(got.code == 4);
    CHECK(got.msg == std::string(variable) + ": not UTF-8");
    CHECK(read(with(env_for("DEL"), variable, "eth\xff")).command == Command::kDel);
    CHECK(read(with(env_for("ADD"), variable, "eth\xc3\xa4")).command == Command::kAdd);
  }
}

TEST_CASE("a number of any size in the config is no internal error") {
  const Refusal got = refusal(env_for("ADD"), R"({"cniVersion": "1.0.0", "name": 1e99999})");
  CHECK(got.code == 6);
  CHECK(got.msg.starts_with("the network config on stdin is not JSON: "));
}

#include "libcni/request.h"

#include <doctest/doctest.h>

#include "tests/unit/surroundings.h"

using cni::Code;
using cni::Command;
using cni::Env;
using cni::Error;
using cni::Request;
using cni::Version;
using surroundings::file_with;

namespace {

constexpr const char* kConf = R"({"cniVersion": "1.1.0", "name": "net", "type": "fake"})";

Env env_for(const std::string& command) {
  return {{"CNI_COMMAND", command},       {"CNI_CONTAINERID", "id1"}, {"CNI_NETNS", "/run/netns/x"},
          {"CNI_IFNAME", "eth0"},         {"CNI_ARGS", "A=1"},        {"CNI_PATH", "/opt/cni/bin"}};
}

Env with(Env env, const std::string& name, const std::string& value) {
  env[name] = value;
  return env;
}

Env without(Env env, std::initializer_list<const char*> names) {
  for (const char* name : names) env.erase(name);
  return env;
}

Request read(const Env& env, std::string_view input = kConf) {
  const auto in = file_with(input);
  Request request;
  request.read(env, in.get());
  return request;
}

struct Refusal {
  unsigned code = 0;
  std::string msg, details;
};

// code 0: it was accepted.
Refusal refusal(const Env& env, std::string_view input = kConf) {
  try {
    read(env, input);
  } catch (const Error& e) {
    return {static_cast<unsigned>(e.code()), e.what(), e.details()};
  }
  return {};
}

std::string conf(const std::string& version) {
  return R"({"cniVersion": ")" + version + R"(", "name": "net"})";
}

std::string repeated(std::string_view piece, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += piece;
  return out;
}

const char* const kAll[] = {"ADD", "CHECK", "DEL", "GC", "STATUS"};

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
  CHECK(request.conf["type"] == "fake");
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
  for (const char* input : {"", " ", "{", "{]", "[]", "5", "null", "\"x\"", "{} {}", R"({"name": "a"} x)",
                            R"({"name": 5})", R"({"name": ["a"]})", R"({"name": "a",})",
                            R"({"name": "a\xff"})", "// c\n{}"}) {
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
  CHECK(refusal(env_for("ADD"), R"({"name": "n", "x": ")" + repeated("[{\\\"", 5000) + "\"}").code == 0);
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

TEST_CASE("ADD and DEL take every supported version, and an absent one as 0.1.0") {
  for (const char* command : {"ADD", "DEL"}) {
    for (const auto version : cni::supported_versions()) {
      CHECK(cni::str(read(env_for(command), conf(std::string(version))).version) == version);
    }
    CHECK(read(env_for(command), R"({"name": "n"})").version == Version::k0_1_0);
    CHECK(read(env_for(command), conf("")).version == Version::k0_1_0);
    CHECK(read(env_for(command), R"({"name": "n", "cniVersion": null})").version == Version::k0_1_0);
  }
}

TEST_CASE("a version that is not supported is refused with the list") {
  for (const char* command : {"ADD", "DEL"}) {
    for (const char* version : {"1.0", "9.9.9", "0.3", "x", "1.1.1", "v1.0.0"}) {
      CAPTURE(version);
      const Refusal got = refusal(env_for(command), conf(version));
      CHECK(got.code == 1);
      CHECK(got.msg == "incompatible CNI versions");
      CHECK(got.details ==
            cni::cat("config is \"", version,
                     R"(", plugin supports ["0.1.0" "0.2.0" "0.3.0" "0.3.1" "0.4.0" "1.0.0" "1.1.0"])"));
    }
  }
}

TEST_CASE("CHECK begins with 0.4.0, GC and STATUS with 1.1.0") {
  for (const char* version : {"", "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.3.9"}) {
    CAPTURE(version);
    const Refusal got = refusal(env_for("CHECK"), conf(version));
    CHECK(got.code == 1);
    CHECK(got.msg == "config version does not allow CHECK");
  }
  for (const char* version : {"0.4.0", "1.0.0", "1.1.0"}) {
    CHECK(refusal(env_for("CHECK"), conf(version)).code == 0);
  }
  for (const std::string command : {"GC", "STATUS"}) {
    for (const char* version : {"", "0.4.0", "1.0.0", "1.0.9"}) {
      CAPTURE(version);
      const Refusal got = refusal(env_for(command), conf(version));
      CHECK(got.code == 1);
      CHECK(got.msg == "config version does not allow " + command);
    }
    CHECK(refusal(env_for(command), conf("1.1.0")).code == 0);
  }
}

TEST_CASE("CHECK, GC and STATUS of a newer config are beyond the plugin") {
  for (const std::string command : {"CHECK", "GC", "STATUS"}) {
    for (const char* version : {"1.1.1", "1.2.0", "2.0.0", "99"}) {
      CAPTURE(version);
      const Refusal got = refusal(env_for(command), conf(version));
      CHECK(got.code == 1);
      CHECK(got.msg == "plugin version does not allow " + command);
    }
  }
}

TEST_CASE("CHECK of a version between two supported ones is incompatible") {
  for (const char* version : {"0.4.1", "0.9.0", "1.0.1", "1.0", "0.4"}) {
    CAPTURE(version);
    const Refusal got = refusal(env_for("CHECK"), conf(version));
    CHECK(got.code == 1);
    CHECK(got.msg == "incompatible CNI versions");
  }
  CHECK(refusal(env_for("GC"), conf("1.1")).msg == "incompatible CNI versions");
}

TEST_CASE("CHECK, GC and STATUS refuse what is no version as a decoding failure") {
  for (const char* command : {"CHECK", "GC", "STATUS"}) {
    for (const char* version : {"x", "1.x", "1.0.0.0", "1.0.0-rc1"}) {
      CAPTURE(version);
      CHECK(refusal(env_for(command), conf(version)).code == 6);
    }
  }
  CHECK(refusal(env_for("CHECK"), conf("1.0.0.0")).msg == "invalid version \"1.0.0.0\": too many parts");
}

TEST_CASE("the keys of the config are found in any case") {
  CHECK(read(env_for("ADD"), R"({"CNIVersion": "0.3.1", "Name": "n"})").version == Version::k0_3_1);
}

TEST_CASE("the version an error carries is the config's if this build speaks it") {
  const auto stated = [](std::string_view input) {
    Request request;
    const auto in = file_with(input);
    try {
      request.read(env_for("ADD"), in.get());
    } catch (const Error&) {
    }
    return request.stated_version();
  };
  CHECK(stated(R"({"cniVersion": "0.4.0", "name": "."})") == Version::k0_4_0);
  CHECK(stated(R"({"cniVersion": "9.9.9", "name": "n"})") == Version::k1_1_0);
  CHECK(stated(R"({"cniVersion": 5, "name": "n"})") == Version::k1_1_0);
  CHECK(stated("[]") == Version::k1_1_0);
  CHECK(stated("x") == Version::k1_1_0);
  CHECK(Request{}.stated_version() == Version::k1_1_0);
}

TEST_CASE("prevResult is read in the config's version") {
  const auto prev = [](const std::string& version, const std::string& result) {
    return read(env_for("ADD"), R"({"cniVersion": ")" + version + R"(", "name": "n", "prevResult": )" +
                                    result + "}")
        .prev_result();
  };
  CHECK_FALSE(read(env_for("ADD")).prev_result());
  CHECK_FALSE(prev("1.1.0", "null"));
  CHECK(prev("1.0.0", R"({"ips": [{"version": "4", "address": "10.0.0.2/8"}]})")->ips.size() == 1);
  CHECK(prev("0.2.0", R"({"ip4": {"ip": "10.0.0.2/8"}})")->ips.size() == 1);
  CHECK(prev("0.4.0", R"({"cniVersion": "0.3.1", "ips": [{"address": "10.0.0.2/8"}]})")->ips.size() == 1);
  CHECK(prev("1.1.0", R"({"cniVersion": "1.0.0", "interfaces": [{"name": "a"}]})")->interfaces.size() == 1);
  CHECK_THROWS_WITH_AS(
      prev("1.0.0", R"({"cniVersion": "0.4.0"})"),
      "could not parse prevResult: result type supports [1.0.0 1.1.0] but unmarshalled CNIVersion is "
      "\"0.4.0\"",
      Error);
  CHECK_THROWS_WITH_AS(prev("1.0.0", R"({"ips": 5})"),
                       "could not parse prevResult: ips: expected a list: 5", Error);
}

TEST_CASE("GC learns which attachments are to be kept") {
  const auto valid = [](const std::string& pair) {
    return read(env_for("GC"), R"({"cniVersion": "1.1.0", "name": "n")" + pair + "}").valid_attachments();
  };
  const std::vector<cni::Attachment> two{{"a", "eth0"}, {"b", "net1"}};
  const std::string list =
      R"([{"containerID": "a", "ifname": "eth0"}, {"containerID": "b", "ifname": "net1"}])";
  CHECK(valid(R"(, "cni.dev/valid-attachments": )" + list) == two);
  CHECK(valid(R"(, "cni.dev/attachments": )" + list) == two);
  CHECK(valid(R"(, "cni.dev/valid-attachments": [])").empty());
  CHECK(valid(R"(, "cni.dev/valid-attachments": null)").empty());
}

TEST_CASE("GC refuses a missing or broken list rather than delete everything") {
  const char* const broken[] = {
      "",
      R"(, "cni.dev/valid-attachments": {})",
      R"(, "cni.dev/valid-attachments": [{}])",
      R"(, "cni.dev/valid-attachments": [5])",
      R"(, "cni.dev/valid-attachments": [{"containerID": "a"}])",
      R"(, "cni.dev/valid-attachments": [{"containerID": "", "ifname": "eth0"}])",
      R"(, "cni.dev/valid-attachments": [{"containerID": "a", "ifname": "eth0"}, {"containerID": 5, "ifname": "e"}])",
  };
  for (const char* pair : broken) {
    CAPTURE(pair);
    const Request request = read(env_for("GC"), R"({"cniVersion": "1.1.0", "name": "n")" + std::string(pair) + "}");
    try {
      request.valid_attachments();
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.code() == Code::kInvalidConfig);
    }
  }
}

TEST_CASE("a namespace that is the plugin's own is refused for ADD and DEL") {
  for (const char* command : {"ADD", "DEL"}) {
    const Request own = read(with(env_for(command), "CNI_NETNS", "/proc/self/ns/net"));
    try {
      cni::require_foreign_netns(own);
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.code() == Code::kInvalidNetNs);
      CHECK(std::string(e.what()) == "plugin's netns and netns from CNI_NETNS should not be the same");
    }
    CHECK_NOTHROW(cni::require_foreign_netns(read(with(env_for(command), "CNI_NETNS", "/nowhere/x"))));
  }
  CHECK_NOTHROW(cni::require_foreign_netns(read(with(env_for("CHECK"), "CNI_NETNS", "/proc/self/ns/net"))));
  CHECK_NOTHROW(cni::require_foreign_netns(read(without(env_for("DEL"), {"CNI_NETNS"}))));
}

TEST_CASE("CNI_NETNS_OVERRIDE allows the plugin's own namespace") {
  const Env env = with(env_for("ADD"), "CNI_NETNS", "/proc/self/ns/net");
  for (const char* yes : {"1", "true", "True", "TRUE"}) {
    CAPTURE(yes);
    CHECK_NOTHROW(cni::require_foreign_netns(read(with(env, "CNI_NETNS_OVERRIDE", yes))));
  }
  for (const char* no : {"", "0", "false", "yes", "2"}) {
    CAPTURE(no);
    CHECK_THROWS_AS(cni::require_foreign_netns(read(with(env, "CNI_NETNS_OVERRIDE", no))), Error);
  }
}

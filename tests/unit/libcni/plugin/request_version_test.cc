#include <doctest/doctest.h>

#include "tests/unit/libcni/reading.h"

using namespace reading;
using cni::Code;
using cni::Version;
using surroundings::file_with;

TEST_CASE("ADD and DEL take every supported version, and an absent one as 0.1.0") {
  for (const char* command : {"ADD", "DEL"}) {
    for (const auto version : cni::supported_versions()) {
      CHECK(cni::str(read(env_for(command), conf(std::string(version))).version) == version);
    }
    CHECK(read(env_for(command), R"({"name": "n"})").version == Version::k0_1_0);
    CHECK(read(env_for(command), conf("")).version == Version::k0_1_0);
    CHECK(read(env_for(command), R"({"name": "n", "cniVersion": null})").version ==
          Version::k0_1_0);
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
            cni::cat(
                "config is \"", version,
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
  CHECK(refusal(env_for("CHECK"), conf("1.0.0.0")).msg ==
        "invalid version \"1.0.0.0\": too many parts");
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
    return read(env_for("ADD"), R"({"cniVersion": ")" + version +
                                    R"(", "name": "n", "prevResult": )" + result + "}")
        .prev_result();
  };
  CHECK_FALSE(read(env_for("ADD")).prev_result());
  CHECK_FALSE(prev("1.1.0", "null"));
  CHECK(prev("1.0.0", R"({"ips": [{"version": "4", "address": "10.0.0.2/8"}]})")->ips.size() == 1);
  CHECK(prev("0.2.0", R"({"ip4": {"ip": "10.0.0.2/8"}})")->ips.size() == 1);
  CHECK(
      prev("0.4.0", R"({"cniVersion": "0.3.1", "ips": [{"address": "10.0.0.2/8"}]})")->ips.size() ==
      1);
  CHECK(prev("1.1.0", R"({"cniVersion": "1.0.0", "interfaces": [{"name": "a"}]})")
            ->interfaces.size() == 1);
  CHECK_THROWS_WITH_AS(prev("1.0.0", R"({"cniVersion": "0.4.0"})"),
                       "could not parse prevResult: result type supports [1.0.0 1.1.0] but "
                       "unmarshalled CNIVersion is "
                       "\"0.4.0\"",
                       Error);
  CHECK_THROWS_WITH_AS(prev("1.0.0", R"({"ips": 5})"),
                       "could not parse prevResult: ips: expected a list: 5", Error);
}

TEST_CASE("GC learns which attachments are to be kept") {
  const auto valid = [](const std::string& pair) {
    return read(env_for("GC"), R"({"cniVersion": "1.1.0", "name": "n")" + pair + "}")
        .valid_attachments();
  };
  const std::vector<cni::Attachment> two{{"a", "eth0"}, {"b", "net1"}};
  const std::string list =
      R"([{"containerID": "a", "ifname": "eth0"}, {"containerID": "b", "ifname": "net1"}])";
  CHECK(valid(R"(, "cni.dev/valid-attachments": )" + list) == two);
  CHECK(valid(R"(, "cni.dev/attachments": )" + list) == two);
  for (const char* none : {"[]", "null"}) {  // libcni's nil list
    const auto list_of_none = valid(std::string(R"(, "cni.dev/valid-attachments": )") + none);
    REQUIRE(list_of_none);
    CHECK(list_of_none->empty());
  }
}

TEST_CASE("GC without a list keeps everything, as an empty list keeps nothing") {
  CHECK_FALSE(read(env_for("GC"), R"({"cniVersion": "1.1.0", "name": "n"})").valid_attachments());
}

TEST_CASE("GC refuses a broken list rather than delete everything") {
  const char* const broken[] = {
      R"(, "cni.dev/valid-attachments": {})",
      R"(, "cni.dev/valid-attachments": [{}])",
      R"(, "cni.dev/valid-attachments": [5])",
      R"(, "cni.dev/valid-attachments": [{"containerID": "a"}])",
      R"(, "cni.dev/valid-attachments": [{"containerID": "", "ifname": "eth0"}])",
      R"(, "cni.dev/valid-attachments": [{"containerID": "a", "ifname": "eth0"}, {"containerID": 5, "ifname": "e"}])",
  };
  for (const char* pair : broken) {
    CAPTURE(pair);
    const Request request =
        read(env_for("GC"), R"({"cniVersion": "1.1.0", "name": "n")" + std::string(pair) + "}");
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
      CHECK(std::string(e.what()) ==
            "plugin's netns and netns from CNI_NETNS should not be the same");
    }
    CHECK_NOTHROW(
        cni::require_foreign_netns(read(with(env_for(command), "CNI_NETNS", "/nowhere/x"))));
  }
  CHECK_NOTHROW(
      cni::require_foreign_netns(read(with(env_for("CHECK"), "CNI_NETNS", "/proc/self/ns/net"))));
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

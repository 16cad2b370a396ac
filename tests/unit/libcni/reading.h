#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "libcni/plugin/request.h"
#include "tests/unit/surroundings.h"

/// Requests as a runtime makes them, and what becomes of them.
namespace reading {

using cni::Env;
using cni::Error;
using cni::Request;

inline constexpr const char* kConf = R"({"cniVersion": "1.1.0", "name": "net", "type": "fake"})";

inline Env env_for(const std::string& command) {
  return {{"CNI_COMMAND", command}, {"CNI_CONTAINERID", "id1"}, {"CNI_NETNS", "/run/netns/x"},
          {"CNI_IFNAME", "eth0"},   {"CNI_ARGS", "A=1"},        {"CNI_PATH", "/opt/cni/bin"}};
}

inline Env with(Env env, const std::string& name, const std::string& value) {
  env[name] = value;
  return env;
}

inline Env without(Env env, std::initializer_list<const char*> names) {
  for (const char* name : names) env.erase(name);
  return env;
}

inline Request read(const Env& env, std::string_view input = kConf) {
  const auto in = surroundings::file_with(input);
  Request request;
  request.read(env, in.get());
  return request;
}

struct Refusal {
  unsigned code = 0;
  std::string msg, details;
};

// code 0: it was accepted.
inline Refusal refusal(const Env& env, std::string_view input = kConf) {
  try {
    read(env, input);
  } catch (const Error& e) {
    return {static_cast<unsigned>(e.code()), e.what(), e.details()};
  }
  return {};
}

inline std::string conf(const std::string& version) {
  return R"({"cniVersion": ")" + version + R"(", "name": "net"})";
}

inline const char* const kAll[] = {"ADD", "CHECK", "DEL", "GC", "STATUS"};

}  // namespace reading

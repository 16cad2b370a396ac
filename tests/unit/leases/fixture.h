#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "libcni/plugin/request.h"
#include "plugins/leases/store.h"

namespace leases::test {

namespace fs = std::filesystem;

/// A directory of its own, removed at the end.
class TempDir {
 public:
  TempDir() {
    std::string name = (fs::temp_directory_path() / "leases.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() { fs::remove_all(path_); }

  std::string path(const std::string& below = {}) const {
    return below.empty() ? path_ : path_ + "/" + below;
  }
  void write(const std::string& below, const std::string& content) const {
    fs::create_directories(fs::path(path(below)).parent_path());
    std::ofstream(path(below), std::ios::binary) << content;
  }
  std::string read(const std::string& below) const {
    std::ostringstream out;
    out << std::ifstream(path(below), std::ios::binary).rdbuf();
    return out.str();
  }
  bool has(const std::string& below) const { return fs::is_regular_file(path(below)); }

 private:
  std::string path_;
};

inline Ip ip(const std::string& text) { return *Ip::parse(text); }

inline Range range(const std::string& subnet, const std::string& start = {},
                   const std::string& end = {}, const std::string& gateway = {}) {
  return Range::make(*Cidr::parse(subnet), Ip::parse(start), Ip::parse(end), Ip::parse(gateway));
}

/// A request for an attachment (container, "eth0") as cni::run() would have made it.
inline cni::Request request(const std::string& conf, const std::string& container = "ctr",
                            const std::string& args = {}) {
  cni::Request out;
  out.conf = nlohmann::json::parse(conf);
  out.version = *cni::version_from(out.conf->value("cniVersion", ""));
  out.network = out.conf->value("name", "");
  out.container_id = container;
  out.ifname = "eth0";
  out.args = args;
  return out;
}

/// {"cniVersion": "1.1.0", "name": "net", "ipam": {"dataDir": ..., BODY}}
inline std::string conf_of(const TempDir& dir, const std::string& body,
                           const std::string& rest = {}) {
  return R"({"cniVersion": "1.1.0", "name": "net", )" + rest + R"("ipam": {"dataDir": ")" +
         dir.path() + R"(", )" + body + "}}";
}

/// What fn throws: "CODE MESSAGE", "" for nothing.
template <class Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
  } catch (const cni::Error& e) {
    return cni::cat(static_cast<unsigned>(e.code()), " ", e.what());
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

/// The names of all reservations, sorted.
inline std::string reserved(const TempDir& dir, const std::string& network = "net") {
  std::string out;
  const auto store = Store::open(dir.path(), network, Host{.boot_id = "b"});
  if (!store) return out;
  for (const Ip& one : store->used()) out += cni::cat(out.empty() ? "" : " ", one.str());
  return out;
}

/// How many entries the index has.
inline std::size_t indexed(const TempDir& dir, const std::string& network = "net") {
  const auto store = Store::open(dir.path(), network, Host{.boot_id = "b"});
  return store ? store->index().all().size() : 0;
}

}  // namespace leases::test

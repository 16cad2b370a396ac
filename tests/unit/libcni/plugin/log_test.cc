#include "libcni/plugin/log.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>
#include <vector>

#include "libcni/common/undo.h"
#include "libcni/plugin/plugin.h"
#include "tests/unit/libcni/stderr.h"
#include "tests/unit/surroundings.h"

using cni::cat;
using cni::Code;
using cni::Env;
using cni::Error;
using cni::Plugin;
using cni::Request;
using nlohmann::json;
using surroundings::file_with;
using surroundings::Folder;

namespace {

constexpr const char* kTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

Env env_for(const std::string& command, const std::string& log) {
  Env env{{"CNI_COMMAND", command},     {"CNI_CONTAINERID", "id"},
          {"CNI_NETNS", "/nowhere/ns"}, {"CNI_IFNAME", "eth0"},
          {"CNI_PATH", "/nowhere"},     {"CNI_ARGS", "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0"},
          {"TRACEPARENT", kTrace}};
  if (!log.empty()) env["PATCHBAY_LOG"] = log;
  return env;
}

cni::Result add(const Request&, cni::Undo&) {
  for (int i = 0; i < 2; ++i) {
    const cni::Phase phase("nap");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  cni::note("a word");
  return {};
}
void del(const Request&) { throw Error(Code::kTryAgainLater, "too \"soon\"\n", "details"); }

constexpr Plugin kFake{.name = "fake", .verbs = {.add = add, .del = del}, .version = "v1.2.0"};

std::string conf_with(const std::string& more) {
  return cat(R"({"cniVersion": "1.1.0", "name": "n", "type": "fake", "secret": "hunter2")", more,
             "}");
}

int run(const Env& env, const std::string& conf = conf_with("")) {
  const netlink::Fd in = file_with(conf);
  const netlink::Fd out = file_with("");
  return cni::run(kFake, {.env = env, .in = in.get(), .out = out.get()});
}

std::vector<json> lines_of(const std::string& file) {
  const std::string text = netlink::read_file(file).value_or("");
  std::vector<json> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    REQUIRE(end != std::string::npos);
    out.push_back(json::parse(text.substr(at, end - at)));
    at = end + 1;
  }
  return out;
}

json line_with(const std::string& traceparent) {
  const Env env{{"TRACEPARENT", traceparent}};
  return cni::line_of({.kind = "plugin", .plugin = "fake", .env = env});
}

}  // namespace

TEST_CASE("a call that is logged: who, what, how long and in which phases") {
  const Folder folder;
  const std::string file = folder.file("log");
  const StderrKept quiet;
  CHECK(run(env_for("ADD", file)) == 0);
  const auto lines = lines_of(file);
  REQUIRE(lines.size() == 1);
  const json& line = lines[0];
  CHECK(std::regex_match(line.at("time").get<std::string>(),
                         std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)")));
  CHECK(line.at("level") == "info");
  CHECK(line.at("kind") == "plugin");
  CHECK(line.at("plugin") == "fake");
  CHECK(line.at("version") == "v1.2.0");
  CHECK(line.at("verb") == "ADD");
  CHECK(line.at("cniVersion") == "1.1.0");
  CHECK(line.at("network") == "n");
  CHECK(line.at("container") == "id");
  CHECK(line.at("ifname") == "eth0");
  CHECK(line.at("netns") == "/nowhere/ns");
  CHECK(line.at("pod") == "shop/web-0");
  CHECK(line.at("outcome") == "ok");
  CHECK(line.at("pid") == ::getpid());
  CHECK(line.at("trace_id") == "0af7651916cd43dd8448eb211c80319c");
  CHECK(line.at("span_id") == "b7ad6b7169203331");
  CHECK(line.at("trace_flags") == "01");
  CHECK(line.at("notes") == json{"a word"});
  CHECK(line.at("phases").at("nap") >= 4000);
  CHECK(line.at("phases").contains("read"));
  CHECK(line.at("microseconds") >= line.at("phases").at("nap"));
  CHECK_FALSE(line.contains("msg"));
  struct stat about {};
  REQUIRE(::stat(file.c_str(), &about) == 0);
  CHECK((about.st_mode & 07777) == 0600);
}

TEST_CASE("a failure is logged with its code, message and details, and never the config") {
  const Folder folder;
  const std::string file = folder.file("log");
  CHECK(run(env_for("DEL", file)) == 1);
  CHECK(run(env_for("ADD", file), "{") == 1);
  CHECK(run(env_for("FROB", file)) == 1);
  const auto lines = lines_of(file);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].at("level") == "error");
  CHECK(lines[0].at("outcome") == "error");
  CHECK(lines[0].at("code") == 11);
  CHECK(lines[0].at("msg") == "too \"soon\"\n");
  CHECK(lines[0].at("details") == "details");
  CHECK(lines[1].at("code") == 6);
  CHECK(lines[2].at("code") == 4);
  CHECK(lines[2].at("verb") == "FROB");
  CHECK(netlink::read_file(file)->find("hunter2") == std::string::npos);
}

TEST_CASE("the config may ask for the log too; the environment comes first") {
  const Folder folder;
  const StderrKept quiet;
  const std::string in_config = conf_with(cat(R"(, "patchbayLog": ")", folder.file("a"), "\""));
  CHECK(run(env_for("ADD", ""), in_config) == 0);
  REQUIRE(lines_of(folder.file("a")).size() == 1);
  CHECK(lines_of(folder.file("a"))[0].at("phases").contains("nap"));
  CHECK(run(env_for("ADD", folder.file("b")), in_config) == 0);
  CHECK(lines_of(folder.file("a")).size() == 1);
  CHECK(lines_of(folder.file("b")).size() == 1);
  CHECK(run(env_for("ADD", ""), conf_with(R"(, "patchbayLog": "")")) == 0);
  CHECK(run(env_for("ADD", ""), conf_with(R"(, "patchbayLog": 5)")) == 0);
}

TEST_CASE("a log that cannot be written fails no call, and is said on stderr") {
  const Folder folder;
  std::filesystem::create_directory(folder.file("directory"));
  std::filesystem::create_symlink(folder.file("target"), folder.file("link"));
  REQUIRE(::mkfifo(folder.file("fifo").c_str(), 0600) == 0);
  const struct {
    std::string place, complaint;
  } table[] = {{"relative", "no absolute path"},
               {folder.file("none/log"), "no such file or directory"},
               {folder.file("directory"), "is a directory"},
               {folder.file("link"), "too many levels of symbolic links"},
               {folder.file("fifo"), "no such device or address"},
               {"/dev/null", "no regular file"}};
  for (const auto& row : table) {
    CAPTURE(row.place);
    const StderrKept kept;
    CHECK(run(env_for("ADD", row.place)) == 0);
    CHECK(kept.text().starts_with(cat("a word\nlog to '", row.place, "': ")));
    CHECK(kept.text().find(row.complaint) != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(folder.file("target")));
}

TEST_CASE("the log may be stderr") {
  const StderrKept kept;
  CHECK(run(env_for("DEL", "stderr")) == 1);
  CHECK(json::parse(kept.text()).at("code") == 11);
}

TEST_CASE("without being asked for nothing is kept or said") {
  const StderrKept kept;
  CHECK(run(env_for("ADD", "")) == 0);
  CHECK(kept.text() == "a word\n");
  CHECK(cni::current_record == nullptr);
}

TEST_CASE("a long text is cut, and bytes that are no UTF-8 are replaced") {
  const Folder folder;
  const std::string file = folder.file("log");
  const Error error(Code::kInternal, "\xff", std::string(100'000, 'x'));
  const Env env;
  cni::write_log(file, {.kind = "call", .plugin = "fake", .env = env, .error = &error});
  const auto lines = lines_of(file);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].at("msg") == "\xef\xbf\xbd");
  CHECK(lines[0].at("details").get<std::string>().size() == 4096 + 3);
}

TEST_CASE("a traceparent is taken apart where it is one") {
  for (const char* bad : {"", "00-1-2-3", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
                          "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                          "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                          "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                          "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                          "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01"}) {
    CAPTURE(bad);
    CHECK_FALSE(line_with(bad).contains("trace_id"));
  }
  CHECK(line_with(cat("01", std::string_view(kTrace).substr(2), "-more")).contains("trace_id"));
}

TEST_CASE("phases of one name are added up, and end with the call") {
  cni::CallRecord record;
  record.add("a", std::chrono::microseconds(2));
  record.add("b", std::chrono::microseconds(5));
  record.add("a", std::chrono::microseconds(3));
  const Env env;
  const json line = cni::line_of({.kind = "plugin", .plugin = "p", .env = env, .record = &record});
  CHECK(line.at("phases") == json{{"a", 5}, {"b", 5}});
}

#include "libcni/plugin/invoke.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "netlink/types/fd.h"
#include "tests/unit/surroundings.h"

using cni::Code;
using cni::Env;
using cni::Error;
using cni::error_from;
using cni::execute;
using cni::find_plugin;
using cni::Outcome;
using surroundings::Folder;

namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

const Env kEnv{{"PATH", "/usr/bin:/bin"}};

Outcome run(const std::string& body, std::string_view input = "") {
  const Folder folder;
  return execute({folder.script("plugin", body), {}, kEnv}, input, seconds(30));
}

// Gone, or dead and not yet waited for.
bool is_dead(pid_t pid) {
  const auto stat = netlink::read_file(netlink::cat("/proc/", pid, "/stat"));
  return !stat || stat->find(") Z ") != std::string::npos ||
         stat->find(") X ") != std::string::npos;
}

bool dies_soon(pid_t pid) {
  for (int i = 0; i < 200 && !is_dead(pid); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return is_dead(pid);
}

// The pid that a script wrote to file, once it has.
pid_t pid_in(const std::string& file) {
  for (int i = 0; i < 500; ++i) {
    const auto text = netlink::read_file(file);
    if (text && text->ends_with("\n")) return std::stoi(*text);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL("the script did not start");
  return 0;
}

Error failure(const std::string& out, const std::string& err, int wait_status) {
  return error_from("fake", {.wait_status = wait_status, .out = out, .err = err});
}

}  // namespace

TEST_CASE("a plugin's type is a file name, never a path (CVE-2021-20206)") {
  const Folder folder;
  folder.script("sh", "");
  const std::vector<std::string> path{folder.path()};
  for (const std::string_view type :
       {std::string_view("../../bin/reboot"), std::string_view("a/b"), std::string_view("/bin/sh"),
        std::string_view("."), std::string_view(".."), std::string_view("./sh"),
        std::string_view("sh/"), std::string_view("sh\0x", 4), std::string_view("\0", 1)}) {
    CAPTURE(type);
    try {
      find_plugin(type, path);
      FAIL("found");
    } catch (const Error& e) {
      CHECK(e.code() == Code::kInvalidConfig);
      CHECK(std::string(e.what()).starts_with("invalid plugin name: "));
    }
  }
  CHECK_THROWS_WITH_AS(find_plugin("", path), "no plugin name provided", Error);
  CHECK_THROWS_WITH_AS(find_plugin("sh", {}), "no paths provided", Error);
}

TEST_CASE("a plugin is the first regular file of its name on the path") {
  const Folder one;
  const Folder two;
  std::filesystem::create_directory(one.file("bridge"));  // not a file: passed over
  two.script("bridge", "");
  two.script("ptp", "");
  std::filesystem::create_symlink(two.file("ptp"), one.file("ptp"));
  std::filesystem::create_symlink("/nowhere/at/all", one.file("vlan"));
  const std::vector<std::string> path{"/nowhere", one.path(), two.path()};
  CHECK(find_plugin("bridge", path) == two.file("bridge"));
  CHECK(find_plugin("ptp", path) == one.file("ptp"));
  for (const char* type : {"vlan", "Bridge", "absent"}) {
    try {
      find_plugin(type, path);
      FAIL("found");
    } catch (const Error& e) {
      CHECK(e.code() == Code::kInvalidConfig);
      CHECK(std::string(e.what()) == netlink::cat("failed to find plugin \"", type,
                                                  "\" in path [/nowhere ", one.path(), " ",
                                                  two.path(), "]"));
    }
  }
}

TEST_CASE("the error for a plugin that is not there names the key and what is there") {
  const Folder folder;
  const auto details_of = [&](const std::string& type) {
    try {
      find_plugin(type, {folder.path(), "/nowhere"}, "ipam.type");
    } catch (const Error& e) {
      return e.details();
    }
    return std::string("found");
  };
  CHECK(details_of("static") == "ipam.type: \"static\"; there are no plugins");
  for (const char* name : {"host-local", "dhcp"}) folder.script(name, "");
  CHECK(details_of("host-locla") ==
        "ipam.type: \"host-locla\" (did you mean host-local?); there are dhcp, host-local");
  CHECK(details_of("whereabouts") == "ipam.type: \"whereabouts\"; there are dhcp, host-local");
  for (int i = 0; i < 40; ++i) folder.script(netlink::cat("z", i), "");
  CHECK(details_of("whereabouts").ends_with(", ..."));
}

TEST_CASE("a plugin gets stdin and leaves stdout and stderr apart") {
  const Outcome got = run("cat; echo said >&2", "text");
  CHECK(got.ok());
  CHECK(got.out == "text");
  CHECK(got.err == "said\n");
}

TEST_CASE("a plugin gets exactly the environment it is given") {
  CHECK(execute({"/usr/bin/env", {}, {{"A", "1"}, {"B", ""}, {"C", "x=y"}}}, "", seconds(30)).out ==
        "A=1\nB=\nC=x=y\n");
  CHECK(execute({"/usr/bin/env"}, "", seconds(30)).out.empty());
}

TEST_CASE("execute: a program gets the words after its name, as they are") {
  const Outcome got = execute({"/usr/bin/printf", {"%s|", "a b", "", "c\\n"}}, "", seconds(30));
  CHECK(got.ok());
  CHECK(got.out == "a b||c\\n|");
}

TEST_CASE("a plugin may echo more than a pipe holds while it reads") {
  std::string much;
  for (int i = 0; i < 200'000; ++i) much += std::to_string(i) + "\n";
  const Outcome got = run("tee /dev/stderr", much);
  CHECK(got.ok());
  CHECK((got.out == much));
  CHECK((got.err == much));
}

TEST_CASE("a plugin may answer before it reads") {
  const std::string much(1'000'000, 'x');
  const Outcome got = run("head -c 1000000 /dev/zero; wc -c", much);
  CHECK(got.ok());
  CHECK(got.out.size() == 1'000'000 + 8);
}

TEST_CASE("a plugin that prints without an end is stopped") {
  CHECK_THROWS_WITH_AS(run("exec yes"), doctest::Contains("printed more than 16 MiB"), Error);
  CHECK_THROWS_WITH_AS(run("exec yes >&2"), doctest::Contains("printed more than 16 MiB"), Error);
}

TEST_CASE("a plugin need not read its stdin") {
  const std::string much(1'000'000, 'x');
  CHECK(run("exit 0", much).ok());
  CHECK(run("exec <&-; echo done", much).out == "done\n");
}

TEST_CASE("a plugin's exit status is kept") {
  CHECK(WEXITSTATUS(run("exit 1").wait_status) == 1);
  CHECK(WEXITSTATUS(run("exit 77").wait_status) == 77);
  CHECK_FALSE(run("exit 1").ok());
}

TEST_CASE("a plugin's death by a signal is kept") {
  const Outcome got = run("kill -SEGV $$");
  CHECK(WIFSIGNALED(got.wait_status));
  CHECK(WTERMSIG(got.wait_status) == SIGSEGV);
  CHECK_FALSE(got.ok());
}

TEST_CASE("a plugin starts with the default action for a closed pipe") {
  CHECK(WTERMSIG(run("kill -PIPE $$; echo survived").wait_status) == SIGPIPE);
}

TEST_CASE("a plugin that cannot be run is said to be so") {
  const Folder folder;
  const std::string plain = folder.file("plain");
  netlink::write_all(surroundings::open_for_writing(plain).get(), "no program", plain);
  const auto error_of = [](const std::string& file) {
    try {
      execute({file, {}, kEnv}, "x");
    } catch (const netlink::Error& e) {
      return e.error();
    }
    return 0;
  };
  CHECK(error_of(folder.file("absent")) == ENOENT);
  CHECK(error_of(plain) == EACCES);
  CHECK(::chmod(plain.c_str(), 0755) == 0);
  CHECK(error_of(plain) == ENOEXEC);
  CHECK_THROWS_WITH_AS(
      execute({folder.file("absent"), {}, kEnv}, ""),
      netlink::cat("run '", folder.file("absent"), "': no such file or directory").c_str(),
      netlink::Error);
}

TEST_CASE("a plugin that takes too long is killed") {
  const struct {
    const char *how, *body;
  } table[] = {
      {"silent", "exec sleep 60"},
      {"reads nothing", "exec sleep 60 <&-"},
      {"closed its output", "exec >&- 2>&-; exec sleep 60"},
      {"ignores SIGTERM", "trap '' TERM; while :; do :; done"},
  };
  for (const auto& row : table) {
    CAPTURE(row.how);
    const Folder folder;
    const std::string file =
        folder.script("slow", netlink::cat("echo $$ >", folder.file("pid"), "\n", row.body));
    const auto start = steady_clock::now();
    try {
      execute({file, {}, kEnv}, "x", seconds(1));
      FAIL("it was waited for");
    } catch (const Error& e) {
      CHECK(e.code() == Code::kTryAgainLater);
      CHECK(std::string(e.what()) ==
            netlink::cat("run '", file, "': it took too long and was stopped"));
    }
    CHECK(steady_clock::now() - start < seconds(10));
    CHECK(dies_soon(pid_in(folder.file("pid"))));
  }
}

TEST_CASE("what a plugin said before it took too long is in the error's details") {
  const Folder folder;
  const std::string file = folder.script("slow", "echo waiting for a lock >&2; exec sleep 60");
  try {
    execute({file, {}, kEnv}, "", seconds(1));
    FAIL("it was waited for");
  } catch (const Error& e) {
    CHECK(e.details() == "waiting for a lock\n");
  }
}

TEST_CASE("what a plugin of a group of its own has started is killed with it") {
  const Folder folder;
  const std::string file = folder.script(
      "slow", netlink::cat("sleep 60 & echo $! >", folder.file("pid"), "\nexec sleep 60"));
  CHECK_THROWS_AS(execute({.file = file, .env = kEnv, .own_group = true}, "", seconds(1)), Error);
  CHECK(dies_soon(pid_in(folder.file("pid"))));
}

TEST_CASE("what a plugin that has ended left running is killed when it takes too long") {
  const Folder folder;
  const std::string file =
      folder.script("slow", netlink::cat("sleep 60 & echo $! >", folder.file("pid"), "\nexit 0"));
  CHECK_THROWS_AS(execute({.file = file, .env = kEnv, .own_group = true}, "", seconds(1)), Error);
  CHECK(dies_soon(pid_in(folder.file("pid"))));
}

TEST_CASE("a plugin is stopped when a descriptor says so") {
  const Folder folder;
  const std::string file =
      folder.script("slow", netlink::cat("echo $$ >", folder.file("pid"), "\nexec sleep 60"));
  auto [reads, writes] = surroundings::make_pipe();
  std::thread stopper([&folder, &end = writes] {
    pid_in(folder.file("pid"));
    netlink::write_all(end.get(), "x", "a pipe");
  });
  const auto start = steady_clock::now();
  CHECK_THROWS_WITH_AS(
      execute({.file = file, .env = kEnv, .stop_fd = reads.get()}, "", cni::kNoLimit),
      netlink::cat("run '", file, "': it was stopped before its end").c_str(), Error);
  stopper.join();
  CHECK(steady_clock::now() - start < seconds(10));
  CHECK(dies_soon(pid_in(folder.file("pid"))));
}

TEST_CASE("a plugin is not started where a descriptor says stop already") {
  const Folder folder;
  auto [reads, writes] = surroundings::make_pipe();
  netlink::write_all(writes.get(), "x", "a pipe");
  const std::string file = folder.script("plugin", netlink::cat("touch ", folder.file("ran")));
  CHECK_THROWS_AS(execute({.file = file, .env = kEnv, .stop_fd = reads.get()}, "", seconds(30)),
                  Error);
  CHECK_FALSE(std::filesystem::exists(folder.file("ran")));
}

TEST_CASE("a plugin may take its time where there is no limit") {
  const Folder folder;
  const std::string file = folder.script("plugin", "sleep 0.1; echo done");
  CHECK(execute({file, {}, kEnv}, "", cni::kNoLimit).out == "done\n");
  CHECK(execute({file, {}, kEnv}, "", seconds(100'000'000)).out == "done\n");
}

TEST_CASE("a plugin that is being installed is waited for") {
  const Folder folder;
  const std::string file = folder.file("printf");
  std::filesystem::copy_file("/usr/bin/printf", file);
  std::thread installer([fd = surroundings::open_for_writing(file)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  CHECK(execute({file, {"x"}, kEnv}, "", seconds(30)).out == "x");
  installer.join();
}

TEST_CASE("a plugin's signals are not blocked, although they are here") {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &before);
  const Outcome got = run("grep SigBlk /proc/self/status");
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  CHECK(got.out == "SigBlk:\t0000000000000000\n");
}

TEST_CASE("a path is a list of directories") {
  using cni::split_path;
  CHECK(split_path("") == std::vector<std::string>{});
  CHECK(split_path("/a") == std::vector<std::string>{"/a"});
  CHECK(split_path(":/a b::/c:") == std::vector<std::string>{"/a b", "/c"});
}

TEST_CASE("a plugin dies with the process that started it") {
  const Folder folder;
  const std::string file =
      folder.script("slow", netlink::cat("echo $$ >", folder.file("pid"), "\nexec sleep 60"));
  const pid_t middle = ::fork();
  if (middle == 0) {
    try {
      execute({file, {}, kEnv}, "");
    } catch (const std::exception&) {
    }
    ::_exit(0);
  }
  const pid_t plugin = pid_in(folder.file("pid"));
  CHECK_FALSE(is_dead(plugin));
  ::kill(middle, SIGKILL);
  CHECK(dies_soon(plugin));
  ::waitpid(middle, nullptr, 0);
}

TEST_CASE("no process is left behind, whatever came of it") {
  run("exit 0");
  run("exit 1");
  CHECK_THROWS(execute({"/nowhere/plugin", {}, kEnv}, ""));
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("a plugin's error object is adopted") {
  const Error e =
      failure(R"({"cniVersion": "0.4.0", "code": 11, "msg": "m", "details": "d"})", "log", 256);
  CHECK(e.code() == Code::kTryAgainLater);
  CHECK(std::string(e.what()) == "m");
  CHECK(e.details() == "d");
  CHECK(failure(R"({"code": 100, "msg": "m"})", "", 256).code() == static_cast<Code>(100));
  CHECK(failure(R"({"msg": "m"})", "", 256).code() == static_cast<Code>(0));
}

TEST_CASE("a plugin that failed without an error object is described by what is known") {
  CHECK(std::string(failure("", "", 256).what()) ==
        "plugin 'fake' failed (exit status 1) with no error message");
  CHECK(std::string(failure("", "boom", 512).what()) ==
        "plugin 'fake' failed (exit status 2): boom");
  CHECK(std::string(failure("", "", SIGSEGV).what()) ==
        "plugin 'fake' failed (killed by signal 11) with no error message");
  CHECK(failure("", "boom", 256).code() == Code::kInternal);
  for (const char* out :
       {"text", "{}", "[]", "null", "{", R"({"code": "x", "msg": "m"})",
        R"({"code": -1, "msg": "m"})", R"({"code": 5, "msg": ""})", R"({"msg": 5})"}) {
    CAPTURE(out);
    const Error e = failure(out, "", 256);
    CHECK(e.code() == Code::kInternal);
    CHECK(std::string(e.what()) ==
          "plugin 'fake' failed (exit status 1) with output that is no error object");
    CHECK(e.details() == out);
  }
}

TEST_CASE("output that nests too deep to be quoted is no error object") {
  const std::string deep =
      R"({"msg": )" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  const Error e = failure(deep, "", 256);
  CHECK(e.code() == cni::Code::kInternal);
  CHECK(e.details() == deep);
}

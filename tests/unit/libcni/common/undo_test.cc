#include "libcni/common/undo.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/unit/libcni/stderr.h"

using cni::BestEffort;
using cni::Code;
using cni::Error;
using cni::Undo;

namespace {

struct Append {
  std::string* log;
  std::string name;
  bool fails = false;
  void operator()() const {
    *log += name;
    if (fails) throw std::runtime_error("cannot take back " + name);
  }
  std::string describe() const { return "step " + name; }
};

}  // namespace

TEST_CASE("undo runs the newest step first") {
  std::string log;
  {
    Undo undo;
    for (const char* name : {"1", "2", "3"}) undo.add(Append{&log, name});
    CHECK(log.empty());
  }
  CHECK(log == "321");
}

TEST_CASE("undo does nothing after a commit") {
  std::string log;
  {
    Undo undo;
    undo.add(Append{&log, "1"});
    undo.commit();
  }
  CHECK(log.empty());
}

TEST_CASE("undo goes on after a step that fails, and reports it") {
  std::string log;
  const StderrKept kept;
  {
    Undo undo;
    undo.add(Append{&log, "1"});
    undo.add(Append{&log, "2", true});
    undo.add(Append{&log, "3"});
  }
  CHECK(log == "321");
  const std::string said = kept.text();
  CHECK(said.find("step 2") != std::string::npos);
  CHECK(said.find("cannot take back 2") != std::string::npos);
  CHECK(said.find("step 1") == std::string::npos);
}

TEST_CASE("rolling back by hand happens once") {
  std::string log;
  {
    Undo undo;
    undo.add(Append{&log, "1"});
    undo.roll_back();
    CHECK(log == "1");
  }
  CHECK(log == "1");
}

TEST_CASE("a step outlives the variables it was made from") {
  std::string log;
  {
    Undo undo;
    {
      const std::string local(100, 'x');
      undo.add(Append{&log, local});
    }
  }
  CHECK(log == std::string(100, 'x'));
}

TEST_CASE("a lambda is no undo step: it cannot describe itself") {
  const auto lambda = [] {};
  static_assert(!cni::UndoStep<decltype(lambda)>);
  static_assert(cni::UndoStep<Append>);
}

TEST_CASE("best effort runs all steps and lists what failed, with the first code") {
  std::string log;
  BestEffort each;
  each("one", [&] { log += "1"; });
  each("two", [&] {
    log += "2";
    throw Error(Code::kTryAgainLater, "locked", "details");
  });
  each("three", [&] {
    log += "3";
    throw netlink::Error("remove 'eth0'", 1);
  });
  each("four", [&] { log += "4"; });
  CHECK(log == "1234");
  try {
    each.finish();
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.code() == Code::kTryAgainLater);
    CHECK(std::string(e.what()) == "locked; remove 'eth0': operation not permitted");
    CHECK(e.details() == "two: details; three");
  }
}

TEST_CASE("best effort without names fails as its only failure did, and lists several") {
  BestEffort each;
  each("", [] { throw Error(Code::kTryAgainLater, "locked", "by 12"); });
  for (const char* const text : {"locked", "locked; broken; full"}) {
    try {
      each.finish();
      FAIL("nothing was thrown");
    } catch (const Error& e) {
      CHECK(e.code() == Code::kTryAgainLater);
      CHECK(std::string(e.what()) == text);
      CHECK(e.details() == (std::string(text) == "locked" ? "by 12" : "by 12; of 5 MB"));
    }
    each("", [] { throw std::runtime_error("broken"); });
    each("", [] { throw Error(Code::kIoFailure, "full", "of 5 MB"); });
  }
}

TEST_CASE("best effort fails with 999 where the first failure has no code") {
  BestEffort each;
  each("one", [] { throw std::runtime_error("broken"); });
  each("two", [] { throw Error(Code::kTryAgainLater, "locked"); });
  try {
    each.finish();
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.code() == Code::kInternal);
  }
}

TEST_CASE("best effort without a failure finishes quietly") {
  BestEffort each;
  each("one", [] {});
  CHECK_NOTHROW(each.finish());
}

TEST_CASE("what is noted is no failure, but for an errno that is not to be noted") {
  const auto fail = [](int error) {
    return [error]() -> int { throw netlink::Error("x", error); };
  };
  CHECK(cni::noting_failure("test", fail(ENOENT)) == 0);
  CHECK(cni::noting_failure("test", fail(EROFS), cni::is_refusal) == 0);
  CHECK_THROWS_AS(cni::noting_failure("test", fail(ENOENT), cni::is_refusal), netlink::Error);
}

TEST_CASE("during puts what was done before the message, and keeps type, code and details") {
  try {
    cni::during("read 'x'", [] { throw Error(Code::kIoFailure, "no space", "sda1"); });
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(std::string(e.what()) == "read 'x': no space");
    CHECK(e.code() == Code::kIoFailure);
    CHECK(e.details() == "sda1");
  }
  try {
    cni::during("pod", [] { throw netlink::Error("add route", 17, "Exists"); });
    FAIL("nothing was thrown");
  } catch (const netlink::Error& e) {
    CHECK(std::string(e.what()) == "pod: add route: file exists (kernel: Exists)");
    CHECK(e.error() == 17);
  }
  CHECK_THROWS_WITH_AS(cni::during("pod", [] { throw std::runtime_error("as it was"); }),
                       "as it was", std::runtime_error);
  CHECK(cni::during("nothing", [] { return 5; }) == 5);
}

TEST_CASE("notes go to the writer of the process instead of stderr, and back") {
  static std::string written;
  const StderrKept kept;
  cni::send_notes_to([](std::string_view text) noexcept { written += text; });
  cni::note("to the log");
  cni::send_notes_to(nullptr);
  cni::note("to stderr");
  CHECK(written == "to the log");
  CHECK(kept.text() == "to stderr\n");
}

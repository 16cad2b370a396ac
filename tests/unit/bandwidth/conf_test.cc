#include "plugins/bandwidth/conf.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "libcni/common/error.h"
#include "tests/unit/defaults.h"

using bandwidth::Conf;
using bandwidth::DelConf;
using bandwidth::EgressMode;
using bandwidth::Limit;
using bandwidth::Queue;
using netlink::Cidr;
using std::chrono::milliseconds;

namespace {

cni::Request request(const std::string& keys) {
  cni::Request out;
  out.network = "net";
  out.conf = nlohmann::json::parse("{" + keys + "}");
  return out;
}

Conf parse(const std::string& keys) { return Conf::parse(request(keys)); }

DelConf parse_for_del(const std::string& keys) { return DelConf::parse(request(keys)); }

std::string complaint(const std::string& keys) {
  try {
    parse(keys);
  } catch (const cni::Error& e) {
    return cni::cat(static_cast<unsigned>(e.code()), " ", e.what());
  }
  return "";
}

std::string runtime(const std::string& keys) {
  return R"("runtimeConfig": {"bandwidth": {)" + keys + "}}";
}

constexpr const char* kBoth = R"("ingressRate": 8000, "ingressBurst": 80,
                                 "egressRate": 16000, "egressBurst": 160)";

}  // namespace

TEST_CASE("without keys nothing is limited, and the defaults are the reference's") {
  const Conf conf = parse("");
  CHECK_FALSE(conf.limits());
  CHECK_FALSE(conf.asks_for_none);
  CHECK(conf.egress_mode == EgressMode::kIfb);
  CHECK_FALSE(conf.queue);
  CHECK_FALSE(conf.latency);
  CHECK_FALSE(conf.burst_time);
  CHECK(conf.subnets.list.empty());
}

TEST_CASE("what the table calls the default is what holds without the key") {
  cni::Request with = request("");
  with.conf = with_defaults(with.conf, bandwidth::kManual);
  CHECK(with.conf->size() > 4);
  CHECK(Conf::parse(with) == Conf::parse(request("")));
}

TEST_CASE("limits come from the config, else from the runtime, in any spelling") {
  for (const std::string& keys :
       {std::string(kBoth), runtime(kBoth),
        std::string(R"("runtimeConfig": {"bandWidth": {"IngressRate": 8000, "INGRESSBURST": 80,
                                         "egressrate": 16000, "egressBurst": 160}})")}) {
    const Conf conf = parse(keys);
    CHECK(conf.ingress == Limit{8000, 80});
    CHECK(conf.egress == Limit{16000, 160});
  }
  const Conf one = parse(R"("ingressRate": 8, "ingressBurst": 8, "egressRate": 0)");
  CHECK(one.ingress == Limit{8, 8});
  CHECK_FALSE(one.egress);
}

TEST_CASE("a single static key, even null, switches off what the runtime says") {
  for (const char* key : {R"("ingressRate": 0)", R"("egressBurst": null)", R"("EGRESSRATE": 0)"}) {
    const Conf conf = parse(cni::cat(key, ", ", runtime(kBoth)));
    CHECK_FALSE(conf.limits());
    CHECK_FALSE(conf.asks_for_none);
  }
  // The others of the table are no limits.
  CHECK(parse(cni::cat(R"("latency": 25, "unshapedSubnets": ["10.0.0.0/8"], )", runtime(kBoth)))
            .limits());
}

TEST_CASE("a runtime that says zero asks for no limit, one that says nothing does not") {
  CHECK(parse(runtime(R"("ingressRate": 0)")).asks_for_none);
  CHECK_FALSE(parse(runtime("")).asks_for_none);
  CHECK_FALSE(parse(runtime(R"("unshapedSubnets": ["10.0.0.0/8"])")).asks_for_none);
  CHECK_FALSE(parse(runtime(kBoth)).asks_for_none);
  CHECK_FALSE(parse(R"("ingressRate": 0)").asks_for_none);
}

TEST_CASE("rates and bursts that contradict each other are refused with their place") {
  CHECK(complaint(R"("ingressRate": 8)") == "7 if rate is set, burst must also be set");
  CHECK(complaint(R"("egressRate": 8, "egressBurst": 0)") ==
        "7 if rate is set, burst must also be set");
  CHECK(complaint(runtime(R"("egressRate": 8)")) == "7 if rate is set, burst must also be set");
  CHECK(complaint(R"("egressBurst": 8)") == "7 if burst is set, rate must also be set");
  CHECK(complaint(R"("egressRate": 0, "egressBurst": 8)") ==
        "7 if burst is set, rate must also be set");
  CHECK(complaint(runtime(R"("ingressBurst": 9)")) == "7 if burst is set, rate must also be set");
  CHECK(complaint(R"("ingressRate": 7, "ingressBurst": 80)") ==
        "7 ingressRate: expected at least 8 bits per second: 7");
  CHECK(complaint(R"("ingressRate": 8, "ingressBurst": 7)") ==
        "7 ingressBurst: expected at least 8 bits: 7");
}

TEST_CASE("a burst is less than 4 GB") {
  CHECK(parse(R"("ingressRate": 8, "ingressBurst": 34359738352)").ingress->burst == 34359738352U);
  CHECK(complaint(R"("ingressRate": 8, "ingressBurst": 34359738360)") ==
        "7 burst cannot be more than 4GB");
}

TEST_CASE("numbers are whole, and not negative") {
  for (const char* bad : {"-1", "1.5", "1e6", "\"8\"", "true", "9223372036854775808", "[8]"}) {
    CHECK(complaint(cni::cat("\"egressRate\": ", bad, ", \"egressBurst\": 8"))
              .starts_with("7 egressRate: expected an integer "));
  }
  CHECK(parse(R"("egressRate": 9223372036854775807, "egressBurst": 8)").egress->rate ==
        9223372036854775807U);
}

TEST_CASE("with a burst time a rate needs no burst") {
  const Conf conf = parse(R"("ingressRate": 8000, "burstTime": 10)");
  CHECK(conf.ingress == Limit{8000, 0});
  CHECK(conf.burst_time == milliseconds(10));
  CHECK(complaint(R"("ingressBurst": 8, "burstTime": 10)") ==
        "7 if burst is set, rate must also be set");
}

TEST_CASE("modes, queues and times are those of the table") {
  CHECK(parse(R"("egressMode": "ifb")").egress_mode == EgressMode::kIfb);
  CHECK(parse(R"("egressMode": "pod")").egress_mode == EgressMode::kPod);
  CHECK(parse(R"("egressMode": "edt")").egress_mode == EgressMode::kEdt);
  for (const char* bad : {"\"host\"", "\"\""}) {
    CHECK(complaint(cni::cat("\"egressMode\": ", bad)) ==
          cni::cat("7 egressMode: expected \"ifb\", \"pod\" or \"edt\": ", bad));
  }
  CHECK(parse(R"("queue": "fair")").queue == Queue::kFair);
  CHECK(parse(R"("queue": "fifo")").queue == Queue::kFifo);
  CHECK(complaint(R"("queue": "red")") == "7 queue: expected \"fair\" or \"fifo\": \"red\"");
  CHECK(parse(R"("latency": 10000)").latency == milliseconds(10000));
  for (const char* key : {"latency", "burstTime"}) {
    for (const char* bad : {"0", "10001", "\"5\"", "2.5"}) {
      CHECK(complaint(cni::cat("\"", key, "\": ", bad)) ==
            cni::cat("7 ", key, ": expected an integer from 1 to 10000: ", bad));
    }
  }
}

TEST_CASE("networks are given once, by the config or by the runtime") {
  const auto list = [](const Conf& conf) { return conf.subnets.list; };
  const std::vector wanted{Cidr::parse("10.1.0.0/16").value(), Cidr::parse("fd00::/8").value()};
  const std::string both = R"(["10.1.2.3/16", "fd00::1/8"])";
  CHECK(list(parse("\"shapedSubnets\": " + both)) == wanted);
  CHECK(parse("\"shapedSubnets\": " + both).subnets.shaped);
  CHECK(list(parse("\"unshapedSubnets\": " + both)) == wanted);
  CHECK_FALSE(parse("\"unshapedSubnets\": " + both).subnets.shaped);
  CHECK(list(parse(runtime("\"unshapedSubnets\": " + both))) == wanted);
  // The node's administrator knows the networks, the pod's owner the rates.
  const Conf mixed = parse(cni::cat("\"shapedSubnets\": ", both, ", ", runtime(kBoth)));
  CHECK(list(mixed) == wanted);
  CHECK(mixed.egress == Limit{16000, 160});
  CHECK(list(parse(R"("shapedSubnets": [], "unshapedSubnets": ["10.1.2.3/16"])")).size() == 1);
}

TEST_CASE("networks that are none, or in two lists, are refused") {
  const std::string two = R"("shapedSubnets": ["10.0.0.0/8"], "unshapedSubnets": ["10.0.0.0/8"])";
  for (const std::string& keys : {two, runtime(two)}) {
    CHECK(complaint(keys) ==
          "7 unshapedSubnets and shapedSubnets cannot be both specified, one of them should be "
          "discarded");
  }
  CHECK(complaint(R"("shapedSubnets": ["10.0.0.0/8", "10.1"])")
            .starts_with("7 shapedSubnets[1]: expected an address with prefix length"));
  CHECK(complaint(R"("unshapedSubnets": "10.0.0.0/8")") ==
        "7 unshapedSubnets: expected a list: \"10.0.0.0/8\"");
  CHECK(complaint(R"("unshapedSubnets": [null])").starts_with("7 unshapedSubnets[0]: "));
  CHECK(complaint(R"("egressMode": "edt", "unshapedSubnets": ["10.0.0.0/8"])") ==
        "7 egressMode: shapedSubnets and unshapedSubnets need \"ifb\" or \"pod\": \"edt\"");
}

TEST_CASE("DEL does without what it cannot read") {
  CHECK_FALSE(parse_for_del("").limits);
  CHECK_FALSE(parse_for_del("").edt);
  CHECK(parse_for_del(kBoth).limits);
  CHECK(parse_for_del(runtime(R"("ingressRate": 0)")).limits);
  CHECK(parse_for_del(R"("egressMode": "edt")").edt);
  const DelConf broken = parse_for_del(R"("ingressRate": "x")");
  CHECK(broken.limits);
  CHECK(broken.edt);
}

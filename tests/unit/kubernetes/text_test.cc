#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kubernetes/base64.h"
#include "kubernetes/error.h"
#include "kubernetes/lines.h"
#include "kubernetes/path.h"
#include "kubernetes/yaml.h"
#include "libcni/common/error.h"

using kubernetes::Collection;
using kubernetes::Lines;
using kubernetes::parse_yaml;
using Json = nlohmann::json;

TEST_CASE("paths are those of the core group, of others and of namespaces") {
  CHECK(Collection{"v1", "nodes"}.path_of("n1") == "/api/v1/nodes/n1");
  const Collection claims{"resource.k8s.io/v1", "resourceclaims", "shop"};
  CHECK(claims.path() == "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims");
  CHECK(claims.path_of("c-1", "status") ==
        "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims/c-1/status");
}

TEST_CASE("names that somebody chose stay one segment of a path") {
  CHECK(Collection{"v1", "pods", "a/../b"}.path_of("../../x?y#z") ==
        "/api/v1/namespaces/a%2F..%2Fb/pods/..%2F..%2Fx%3Fy%23z");
}

TEST_CASE("parameters are encoded") {
  CHECK(kubernetes::text_of({}).empty());
  CHECK(kubernetes::text_of({{"fieldSelector", "spec.nodeName=n 1&x"}, {"limit", "5"}}) ==
        "?fieldSelector=spec.nodeName%3Dn%201%26x&limit=5");
}

TEST_CASE("lines are whole, however the pieces of a stream end") {
  const std::string text = "one\n\n{\"a\":1}\nthree\nrest";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    std::vector<std::string> got;
    Lines lines(20, [&](std::string_view line) { got.emplace_back(line); });
    for (std::size_t at = 0; at < text.size(); at += size)
      lines.take(std::string_view(text).substr(at, size));
    CHECK(got == std::vector<std::string>{"one", "{\"a\":1}", "three"});
    CHECK(lines.rest() == 4);
  }
}

TEST_CASE("a line is limited, also one that never ends") {
  Lines lines(8, [](std::string_view) {});
  lines.take("12345678\n1234567");
  CHECK_THROWS_AS(lines.take("89"), kubernetes::ApiError);
}

TEST_CASE("base64 is read in lines, and other texts are refused") {
  CHECK(kubernetes::from_base64("").value() == "");
  CHECK(kubernetes::from_base64("YQ==").value() == "a");
  CHECK(kubernetes::from_base64("YWI=").value() == "ab");
  CHECK(kubernetes::from_base64("YWJj\nZGVm\n").value() == "abcdef");
  CHECK(kubernetes::from_base64("/+8=").value() == "\xff\xef");
  for (const char* const text : {"Y", "YQ", "YQ=", "YQ==YQ==", "Y$==", "====", "YWJj="}) {
    INFO(text);
    CHECK_FALSE(kubernetes::from_base64(text));
  }
}

TEST_CASE("YAML is read as JSON") {
  CHECK(parse_yaml("", "x") == Json());
  CHECK(
      parse_yaml("a: {b: [1, -2, 1.5, true, ~, \"7\", 1e3, 0x10]}\nc: |\n  two\n  lines\n", "x") ==
      Json({{"a", {{"b", {1, -2, 1.5, true, nullptr, "7", 1000.0, 16}}}}, {"c", "two\nlines\n"}}));
  CHECK(parse_yaml("[.inf, .nan, no, 1_000, -, 10.0.0.1, 2026-01-01]", "x") ==
        Json({".inf", ".nan", "no", "1_000", "-", "10.0.0.1", "2026-01-01"}));
  CHECK(parse_yaml("[0, 0640, 0o640, 0x1f, 0.5, 0x, 0-7, 0o8]", "x") ==
        Json({0, 416, 416, 31, 0.5, "0x", "0-7", "0o8"}));
}

TEST_CASE("YAML that means more than it says is refused with its line") {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      parse_yaml(text, "file");
    } catch (const cni::Error& e) {
      return e.what();
    }
    return "taken";
  };
  CHECK(refusal("a: &x 1\nb: *x") == "read file: line 1: anchors are not supported");
  CHECK(refusal("b: *x").find("aliases are not supported") != std::string::npos);
  CHECK(refusal("a: !!binary YQ==").find("tags are not supported") != std::string::npos);
  CHECK(refusal("a: 1\n---\nb: 2").find("more than one document") != std::string::npos);
  CHECK(refusal("? [a]\n: 1").find("a key is not a string") != std::string::npos);
  CHECK(refusal("a: 1\na: 2").find("key 'a' comes twice") != std::string::npos);
  CHECK(refusal(std::string(100, '[') + std::string(100, ']')).find("nests more") !=
        std::string::npos);
  CHECK(refusal("[" + std::string(200'001, ',') + "]") != "taken");
  CHECK(refusal(std::string((1U << 20U) + 1, ' ')).find("more than 1048576 bytes") !=
        std::string::npos);
  CHECK(refusal("\"\xff\"") != "taken");
}

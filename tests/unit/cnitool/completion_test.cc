#include "cnitool/completion.h"

#include <doctest/doctest.h>

using tool::Argument;
using tool::Completions;

namespace {

tool::ProgramInfo program() {
  tool::ProgramInfo out{
      .name = "prog", .what = "", .version = "", .footer = "", .options = {}, .commands = {}};
  out.options = {{.names = {"--json"}, .what = "JSON"},
                 {.names = {"--ifname", "-i"}, .value = "TEXT"},
                 {.names = {"--cache-dir"}, .value = "TEXT"}};
  const Argument colour{.names = {"colour"}, .value = "TEXT", .choices = {"green", "red"}};
  out.commands = {{"paint",
                   "paints",
                   {colour, {.names = {"file"}, .value = "TEXT", .many = true}},
                   {{.names = {"--shade"}, .value = "TEXT", .choices = {"dark"}}}},
                  {"print", "prints", {}, {}}};
  return out;
}

std::string completed(const std::vector<std::string>& words) {
  tool::Settings settings;
  settings.conf_dir = settings.cache_dir = "/none";
  return str(completions(program(), words, settings));
}

}  // namespace

TEST_CASE("completion: commands, then the positional arguments of the command in turn") {
  CHECK(completed({""}) == "paint\tpaints\nprint\tprints\n");
  CHECK(completed({"pr"}) == "print\tprints\n");
  CHECK(completed({"paint", ""}) == "green\t\nred\t\n");
  CHECK(completed({"paint", "red", ""}) == ":files\n");
  CHECK(completed({"paint", "red", "a", "b", ""}) == ":files\n");  // any number of them
  CHECK(completed({"print", ""}).empty());
  CHECK(completed({"unknown", ""}) == "paint\tpaints\nprint\tprints\n");
  CHECK(completed({}) == "paint\tpaints\nprint\tprints\n");
}

TEST_CASE("completion: options of the command and of all, and their values") {
  CHECK(completed({"paint", "-"}) == "--shade\t\n--json\tJSON\n--ifname\t\n--cache-dir\t\n");
  CHECK(completed({"--js"}) == "--json\tJSON\n");
  CHECK(completed({"paint", "--shade", ""}) == "dark\t\n");
  CHECK(completed({"paint", "--shade=d"}) == "--shade=dark\t\n");
  CHECK(completed({"paint", "--shade", "=", "d"}) == "dark\t\n");
  CHECK(completed({"paint", "--shade", "="}) == "dark\t\n");
  CHECK(completed({"--ifname", "paint", "pa"}) == "paint\tpaints\n");
  CHECK(completed({"--ifname=x", "--json", "pa"}) == "paint\tpaints\n");
  CHECK(completed({"--cache-dir", ""}) == ":dirs\n");
  CHECK(completed({"--none=x"}).empty());
}

TEST_CASE("completion: a script for three shells") {
  for (const char* const shell : {"bash", "zsh", "fish"}) {
    CHECK(tool::completion_script(shell).find("complete -- ") != std::string::npos);
  }
  CHECK_THROWS_AS(tool::completion_script("ksh"), cni::Error);
}

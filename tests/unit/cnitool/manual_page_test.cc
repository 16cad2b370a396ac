#include "cnitool/manual_page.h"

#include <doctest/doctest.h>

TEST_CASE("manual page: texts cannot be requests or escapes of troff") {
  tool::ProgramInfo program{.name = "prog",
                            .what = "Does it.",
                            .version = "1",
                            .footer = "",
                            .options = {},
                            .commands = {}};
  program.footer = "Environment:\n.SH not\n'a request\n\\fBnor an escape\n\n.What it is";
  program.commands = {{"run", "do it", {{.names = {"file"}, .many = true}}, {}}};
  const std::string page = tool::manual_page(program);
  CHECK(page.starts_with(".TH PROG 1 "));
  CHECK(page.find("\nprog \\- Does it\n") != std::string::npos);
  CHECK(page.find("\n\\&.SH not\n\\&'a request\n\\efBnor an escape\n") != std::string::npos);
  CHECK(page.find("\\fBprog\\fR \\fBrun\\fR [\\fIFILE\\fR...]\n") != std::string::npos);
  CHECK(page.find(".SH DESCRIPTION\n\\&.What it is\n") != std::string::npos);
  CHECK(page.find("\nDo it.\n") != std::string::npos);
}

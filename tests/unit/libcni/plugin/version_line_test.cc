#include "libcni/plugin/version_line.h"

#include <doctest/doctest.h>

TEST_CASE("a plugin names itself and its version in one line") {
  struct Row {
    const char *printed, *plugin, *version, *patchbay;
  };
  for (const Row& row : {
           Row{"CNI bridge plugin v1.9.1\nCNI protocol versions", "bridge", "v1.9.1", ""},
           Row{"CNI bridge plugin v1.9.1+patchbay.0.2.0", "bridge", "v1.9.1+patchbay.0.2.0", ""},
           Row{"CNI tap plugin patchbay 0.1.0\n", "tap", "patchbay 0.1.0", "0.1.0"},
           Row{"CNI tap plugin patchbay 0.2.0 (commit 0123456789ab)\nmore", "tap",
               "patchbay 0.2.0 (commit 0123456789ab)", "0.2.0"},
           Row{"CNI wire plugin\nCNI protocol versions", "wire", "", ""},
           Row{"CNI wire plugins of all kinds", "", "", ""},
           Row{"usage: bridge [OPTION]", "", "", ""},
           Row{"", "", "", ""},
       }) {
    const cni::VersionLine got = cni::version_line_in(row.printed);
    CHECK(got.plugin == row.plugin);
    CHECK(got.version == row.version);
    CHECK(got.patchbay == row.patchbay);
  }
}

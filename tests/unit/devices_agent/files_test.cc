#include "plugins/devices/agent/files.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "netlink/types/fd.h"
#include "plugins/devices/agent/handout.h"
#include "tests/unit/surroundings.h"

using devices::CdiEdits;
using nlohmann::json;

namespace {

constexpr const char* kResource = "vendor.example/nic";
const CdiEdits kVfio{.environment = {{"PATCHBAY_DEVICE_A", "a"}}, .nodes = {"/dev/vfio/17"}};
const CdiEdits kPlain{.environment = {{"PATCHBAY_DEVICE_B", "b"}}};

json spec_in(const surroundings::Folder& folder) {
  const auto text = netlink::read_file(folder.file(devices::cdi_file(kResource)));
  return text ? json::parse(*text) : json();
}

void write(const surroundings::Folder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder.file(name)) << text;
}

bool none_is_kept(const std::string&) { return false; }

}  // namespace

TEST_CASE("a CDI spec has the lowest version that has all of its content") {
  CHECK(json::parse(devices::cdi_spec(kResource, {{"netdev:eth1-1f", kPlain}}))["cdiVersion"] ==
        "0.3.0");
  CHECK(json::parse(devices::cdi_spec(kResource, {{"0000:03:00.0-1f", kPlain}}))["cdiVersion"] ==
        "0.5.0");
}

TEST_CASE("the kind of CDI has no dot in its class and begins with letters") {
  CHECK(devices::cdi_kind("vendor.example/nic") == "vendor.example/nic");
  CHECK(devices::cdi_kind("3com.example/10.g") == "d3com.example/r10_g");
}

TEST_CASE("the name of a CDI device is another one if a container gets something else") {
  CHECK(devices::cdi_name("a", kVfio) == devices::cdi_name("a", kVfio));
  CHECK(devices::cdi_name("a", kVfio) != devices::cdi_name("a", kPlain));
  CHECK(devices::cdi_name("a", kVfio).starts_with("a-"));
}

TEST_CASE("a CDI file is written, keeps what pods have, and is removed with its last device") {
  const surroundings::Folder folder;
  const std::string first = devices::cdi_name("a", kVfio), second = devices::cdi_name("a", kPlain);
  devices::write_cdi(folder.path(), kResource, {{first, kVfio}}, none_is_kept);
  const json spec = spec_in(folder);
  CHECK(spec["kind"] == kResource);
  CHECK(spec["devices"][0]["name"] == first);
  CHECK(spec["devices"][0]["containerEdits"] == json::parse(R"({"env": ["PATCHBAY_DEVICE_A=a"],
                        "deviceNodes": [{"path": "/dev/vfio/17", "permissions": "rw"}]})"));
  devices::write_cdi(folder.path(), kResource, {{second, kPlain}},
                     [](const std::string& id) { return id == "a"; });
  CHECK(spec_in(folder)["devices"].size() == 2);
  devices::write_cdi(folder.path(), kResource, {{second, kPlain}}, none_is_kept);
  CHECK(spec_in(folder)["devices"].size() == 1);
  devices::write_cdi(folder.path(), kResource, {}, none_is_kept);
  CHECK(spec_in(folder).is_null());
}

TEST_CASE("CDI files of resources that do not exist any more are removed, others' stay") {
  const surroundings::Folder folder;
  const std::string name = devices::cdi_name("a", kPlain), old = "vendor.example/old.x_y";
  devices::write_cdi(folder.path(), kResource, {{name, kPlain}}, none_is_kept);
  devices::write_cdi(folder.path(), old, {{name, kPlain}, {devices::cdi_name("b", kVfio), kVfio}},
                     none_is_kept);
  const std::string ours = *netlink::read_file(folder.file(devices::cdi_file(old)));
  auto changed = json::parse(ours);
  changed["devices"][0]["containerEdits"]["env"][0] = "A=b";
  const std::map<std::string, std::string> others = {
      {"other.json", "{}"},
      {"patchbay-notes.json", "{}"},
      {"patchbay-vendor.example_gpu.json", "no JSON"},
      {"patchbay-vendor.example_fpga.json", R"({"kind": "vendor.example/fpga", "devices": []})"},
      {"patchbay-vendor.example_dsp.json",
       R"({"kind": "vendor.example/dsp", "devices": [{"name": "a-0a1b2c3d", "containerEdits": {}}]})"},
      {"patchbay-vendor.example_old.x_y.bak.json", ours},  // a copy
      {"patchbay-vendor.example_old.x_z.json", changed.dump()}};
  for (const auto& [file, text] : others) write(folder, file, text);
  devices::remove_other_cdi(folder.path(), {kResource});
  CHECK_FALSE(spec_in(folder).is_null());
  CHECK_FALSE(netlink::read_file(folder.file(devices::cdi_file(old))));
  for (const auto& [file, text] : others) CHECK(netlink::read_file(folder.file(file)));
}

TEST_CASE("a CDI file of another kind is not written over, a torn one is") {
  const surroundings::Folder folder;
  const std::string name = devices::cdi_name("a", kPlain);
  const auto write_ours = [&] {
    devices::write_cdi(folder.path(), kResource, {{name, kPlain}}, none_is_kept);
  };
  write(folder, devices::cdi_file(kResource),
        R"({"cdiVersion": "0.6.0", "kind": "me.example/nic"})");
  CHECK_THROWS_WITH_AS(write_ours(), doctest::Contains("it is a spec of another kind"), cni::Error);
  CHECK(spec_in(folder)["kind"] == "me.example/nic");
  write(folder, devices::cdi_file(kResource), "{\"cdiVers");
  write_ours();
  CHECK(spec_in(folder)["kind"] == kResource);
}

TEST_CASE("a device-info file is of version 1.1.0, and workloads can read it") {
  const surroundings::Folder folder;
  const std::string name = devices::device_info_name(kResource, "0000:03:02.0");
  CHECK(name == "vendor.example-nic-0000:03:02.0-device.json");
  devices::write_device_info(folder.path(), name, {"0000:03:02.0", "0000:03:00.0"});
  CHECK(netlink::read_file(folder.file(name)) ==
        R"({"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:03:02.0",)"
        R"("pf-pci-address":"0000:03:00.0"}})");
  struct stat info {};
  REQUIRE(::stat(folder.file(name).c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0444);
  devices::remove_device_info(folder.path(), name);
  CHECK_FALSE(netlink::read_file(folder.file(name)));
}

TEST_CASE("metrics have a line for each resource, with help and type") {
  const auto text = devices::metrics_text({{.resource = kResource,
                                            .devices = 8,
                                            .healthy = 7,
                                            .allocated = 3,
                                            .allocations = 12,
                                            .failures = 1}});
  CHECK(text.find("# TYPE patchbay_agent_allocations_total counter\n"
                  "patchbay_agent_allocations_total{resource=\"vendor.example/nic\"} 12\n") !=
        std::string::npos);
}

TEST_CASE("with DRA metrics have lines of the ResourceSlices") {
  const devices::dra::SliceState state{.generation = 7, .slices = 2, .devices = 130, .errors = 1};
  const auto text = devices::metrics_text({}, state);
  CHECK(text.find("\npatchbay_agent_slice_generation 7\n") != std::string::npos);
  CHECK(text.find("\npatchbay_agent_slices_right 1\n") != std::string::npos);
  CHECK(text.find("# TYPE patchbay_agent_slice_errors_total counter\n") != std::string::npos);
  auto wrong = state;
  wrong.error = "the server is away";
  CHECK(devices::metrics_text({}, wrong).find("slices_right 0\n") != std::string::npos);
  CHECK(devices::metrics_text({}).find("slice") == std::string::npos);
}

# Tests on other kernels, in virtual machines (scripts/vm): one for all that the default tier needs of one.

# Two NICs for host-device.
set(nics)
foreach(number 1 2)
  string(APPEND nics " -netdev hubport,id=n${number},hubid=0"
    " -device virtio-net-pci,netdev=n${number},mac=52:54:00:00:00:0${number}")
endforeach()

# on_kernel(NAME VERSION TESTS...): tests in Python, each with words that select its cases, in one virtual machine.
# "kernel_tests" has tests in C++.
function(on_kernel name version)
  set(each)
  foreach(test ${ARGN})
    separate_arguments(words UNIX_COMMAND ${test})
    list(POP_FRONT words file)
    list(JOIN words " " words)
    if(file STREQUAL kernel_tests)
      list(APPEND each "$<TARGET_FILE:kernel_tests> ${words}")
    else()
      list(APPEND each "${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${file}_test.py ${words}")
    endif()
  endforeach()
  add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/scripts/vm ${version} ${CMAKE_CURRENT_SOURCE_DIR}/support/each ${each})
  set_tests_properties(${name} PROPERTIES LABELS full SKIP_RETURN_CODE 77 TIMEOUT 7200 COST 1000
    ENVIRONMENT "PATCHBAY_GUEST=1;PATCHBAY_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};VM_TIMEOUT=7190;VM_DEVICES=${nics}")
endfunction()

# Of every plugin one lifecycle, and what this machine's kernel may lack.
on_kernel(netns.linux_6.1 6.1 netns/every_plugin netns/vlan netns/vlan_plugin netns/dummy netns/ipvlan netns/vrf
          conformance/mixed_vrf netns/host_device_nic "netns/examples 10-vlan" "netns/examples dummy"
          "netns/examples ipvlan" "netns/examples vrf" "netns/chained vrf")
set_tests_properties(netns.linux_6.1 PROPERTIES LABELS netns)
# IPv6 is switched off for a whole machine: ipv6.disable=1.
python_test(netns.no_ipv6 netns 1500 ${CMAKE_CURRENT_SOURCE_DIR}/netns/no_ipv6_test.py)
set_tests_properties(netns.no_ipv6 PROPERTIES COST 400)

# All lifecycles, and what needs fq.
set(lifecycles "kernel_tests tc tc_filter link" netns/lifecycle netns/interface netns/second_add
    "netns/state_format vrf" "netns/hostile_pod edt" "netns/firewall a_vlan" "netns/chained vrf" netns/bandwidth_guest)
foreach(subject edt vrf dummy "vlan !macvlan")
  list(APPEND lifecycles "netns/capabilities ${subject}")
endforeach()
on_kernel(netns.kernel_6.1 6.1 ${lifecycles})
on_kernel(netns.kernel_6.12 6.12 ${lifecycles} netns/every_plugin netns/vlan)
# The kernel's reasons for drops, and what it gives none for, differ; with the rows that this machine's kernel may lack.
foreach(version 6.1 6.12 unstable)
  on_kernel(netns.probe_reasons_${version} ${version} netns/probe_reasons netns/probe_cgroup
            "netns/probe_limits conntrack" "netns/probe_udp virtual")
endforeach()
# No program of probe's is loaded.
on_kernel(netns.probe_lockdown_6.12 6.12 "netns/probe_limits bpf" "netns/probe_limits says")
set_property(TEST netns.probe_lockdown_6.12 APPEND PROPERTY ENVIRONMENT "VM_ARGUMENTS=lockdown=confidentiality lsm=lockdown")
# Links that this machine's kernel may lack: dummy, vlan, ipvlan, vrf.
set(interfaces netns/dummy netns/ipvlan netns/vlan_plugin netns/vrf "netns/host_device restores"
    netns/second_interface netns/on_link_gateway netns/host_device_nic "netns/other_networks ipvlan")
foreach(plugin dummy ipvlan vlan vrf)
  list(APPEND interfaces "netns/readme plugins/${plugin}/")
endforeach()
on_kernel(netns.interfaces_6.12 6.12 ${interfaces})
set_property(TEST netns.interfaces_6.12 APPEND PROPERTY ENVIRONMENT PATCHBAY_SWEEP_STEP=3)
# What the plugins and the reference's make of a config does not depend on the kernel.
list(APPEND interfaces "e2e/podman ipvlan" "conformance/conformance dummy" "conformance/interface_errors dummy"
     "conformance/conformance vrf" "conformance/compare vrf" conformance/mixed_vrf
     "conformance/sentences_check dummy" "conformance/sentences_check vrf"
     "netns/dhcp_interfaces over_ipvlan" "netns/dhcp_interfaces over_vlan")
foreach(test conformance interface_errors compare mixed sentences_check)
  list(APPEND interfaces "conformance/${test} vlan !macvlan")
endforeach()
on_kernel(netns.interfaces_6.1 6.1 ${interfaces} netns/every_plugin netns/vlan "netns/doctor_segments VLAN")

# sweep_on_kernel(NAME WORDS...): under strace in a virtual machine a call takes seconds: every 60th point.
function(sweep_on_kernel name)
  add_test(NAME netns.fault_sweep_${name} COMMAND ${PROJECT_SOURCE_DIR}/scripts/vm 6.1
           ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/netns/fault_sweep_test.py --step=60 ${ARGN})
  set_tests_properties(netns.fault_sweep_${name} PROPERTIES
    ENVIRONMENT "PATCHBAY_GUEST=1;PATCHBAY_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};VM_TIMEOUT=3590"
    LABELS full SKIP_RETURN_CODE 77 TIMEOUT 3600)
endfunction()
sweep_on_kernel(edt "bandwidth, edt")
foreach(plugin dummy ipvlan vrf)
  sweep_on_kernel(${plugin} ${plugin})
endforeach()
sweep_on_kernel(vlan vlan !ipvlan !macvlan)

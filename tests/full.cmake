# What scripts/test --full has more than the default tier. What keeps the processors busy counts as two tests.

# full_test(NAME TIMEOUT COMMAND...): ENVIRONMENT is that of tests in Python.
function(full_test name timeout)
  add_test(NAME full.${name} COMMAND ${ARGN})
  set_tests_properties(full.${name} PROPERTIES LABELS full SKIP_RETURN_CODE 77 TIMEOUT ${timeout} COST 1000
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} ENVIRONMENT PATCHBAY_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
endfunction()
# python_full_test(NAME TIMEOUT VARIABLE=VALUE TEST ARGUMENTS...): a test with more of something.
function(python_full_test name timeout variable test)
  full_test(${name} ${timeout} ${CMAKE_COMMAND} -E env ${variable} ${Python3_EXECUTABLE} tests/${test}_test.py ${ARGN})
endfunction()
set(scripts ${PROJECT_SOURCE_DIR}/scripts)

# These run whole here, under other names.
set_property(TEST netns.fault_sweep netns.linux_6.1 APPEND PROPERTY LABELS part)
# Minutes, and seldom different.
set_property(TEST e2e.containerd_devices_churn PROPERTY LABELS full)

foreach(part RANGE 1 8)
  full_test(fault_sweep_${part} 7200 ${Python3_EXECUTABLE} tests/netns/fault_sweep_test.py --step=1 --part=${part}/8)
  set_tests_properties(full.fault_sweep_${part} PROPERTIES PROCESSORS 2)
endforeach()
full_test(kernels 7200 ${Python3_EXECUTABLE} tests/kernels.py)
python_full_test(soak_2000_pods 7200 PATCHBAY_SOAK_PODS=2000 netns/soak)
foreach(engine etcd kubernetes)
  python_full_test(blocks_500_pods_${engine} 3600 PATCHBAY_PODS=500 netns/blocks_${engine} ten)
endforeach()
python_full_test(blocks_away_an_hour 7200 PATCHBAY_AWAY=3600 netns/blocks_away)
python_full_test(blocks_slow_30_s 3600 PATCHBAY_SLOW=30 netns/blocks_slow)
python_full_test(blocks_50000 600 PATCHBAY_BLOCKS=49990 netns/blocks_many)
python_full_test(blocks_200_pods 600 PATCHBAY_PODS=200 netns/blocks_status)
python_full_test(agent_20_updates 3600 PATCHBAY_UPDATES=20 netns/agent_kubelet)
python_full_test(dra_100_claims 3600 PATCHBAY_DRA_CLAIMS=100 netns/agent_dra_churn)
set_property(TEST full.dra_100_claims APPEND PROPERTY ENVIRONMENT PATCHBAY_DRA_AWAY=60)
python_full_test(soak_500_leases 3600 PATCHBAY_SOAK_LEASES=500 netns/dhcp_soak)
set_property(TEST full.soak_500_leases APPEND PROPERTY ENVIRONMENT PATCHBAY_SOAK_SECONDS=1800)
python_full_test(probe_1500_pods 3600 PATCHBAY_PODS=1500 netns/probe_scale)
full_test(probe_without_bpf 3600 tests/install/without_bpf.sh)
python_full_test(gc_1000_pods 7200 PATCHBAY_PODS=1000 netns/gc no_pod_loses)
python_full_test(migrate_50_pods 3600 PATCHBAY_PODS=50 netns/migrate no_request)
python_full_test(containerd_20_pods 3600 PATCHBAY_PODS=20 e2e/containerd_kubernetes healthy)
python_full_test(containerd_100_pods_with_devices 3600 PATCHBAY_CHURN_PODS=100 e2e/containerd_devices_churn)

# Newer peers, which are downloaded and not installed.
full_test(migrate_newer_reference 3600 ${scripts}/reference ${Python3_EXECUTABLE} tests/netns/migrate_test.py no_request)
set_property(TEST full.migrate_newer_reference APPEND PROPERTY ENVIRONMENT PATCHBAY_PODS=50)
full_test(flannel_reference 3600 ${scripts}/reference --flannel ${Python3_EXECUTABLE} tests/netns/flannel_reference_test.py)
full_test(flannel_reference_6.1 7200 ${scripts}/reference --flannel ${scripts}/vm 6.1
          ${Python3_EXECUTABLE} tests/netns/flannel_reference_test.py ipvlan)
set_property(TEST full.flannel_reference_6.1 APPEND PROPERTY ENVIRONMENT PATCHBAY_GUEST=1)
set(engines full.containerd_20_pods full.containerd_100_pods_with_devices)
foreach(test containerd containerd_kubernetes containerd_devices_churn containerd_nri)
  full_test(${test}_2 3600 ${scripts}/containerd ${Python3_EXECUTABLE} tests/e2e/${test}_test.py)
  list(APPEND engines full.${test}_2)
endforeach()
set_tests_properties(${engines} PROPERTIES RESOURCE_LOCK control_groups)

foreach(test kube_apiserver kube_apiserver_dra)
  full_test(${test} 7200 ${scripts}/kube-apiserver ${Python3_EXECUTABLE} tests/e2e/${test}_test.py)
  set_tests_properties(full.${test} PROPERTIES PROCESSORS 2)
endforeach()
set_property(TEST full.kube_apiserver APPEND PROPERTY ENVIRONMENT PATCHBAY_PODS=500)

# Fresh systems, packages, another processor.
full_test(debian_13 7200 ${scripts}/debian trixie)
foreach(suite bookworm trixie)
  full_test(pages_${suite} 7200 ${scripts}/debian ${suite}
            "tests/e2e/walk.py; PATCHBAY_BIN=$PWD/build/release/bin python3 tests/netns/pages_test.py")
  full_test(source_package_${suite} 7200 ${scripts}/debian --plain ${suite} tests/install/source_package.sh)
  full_test(packages_${suite} 3600 ${Python3_EXECUTABLE} tests/install/fresh_debian.py ${suite})
endforeach()
full_test(packages_twice 7200 ${Python3_EXECUTABLE} tests/install/packages.py)
full_test(arm64 7200 ${Python3_EXECUTABLE} tests/install/arm64.py)
full_test(fuzz 7200 ${scripts}/fuzz --seconds 60)
# Two of these would write into one folder: build/debian/SUITE, build/package.
set_tests_properties(full.debian_13 full.pages_trixie PROPERTIES RESOURCE_LOCK debian_trixie)
set_tests_properties(full.packages_bookworm full.packages_trixie full.packages_twice full.source_package_bookworm
                     full.source_package_trixie PROPERTIES RESOURCE_LOCK packages)

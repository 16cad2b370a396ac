# CURL_LINKED: libcurl and libyaml, for the client of the API server (kubernetes/).
#
# Debian's libcurl.a needs libraries for LDAP, SSH, RTMP, Kerberos and more that have no archive, and that an HTTP client without
# them does not reach: with CURLOPT_PROTOCOLS_STR, HTTP/1.1 alone (no ALPN), no cookies, no Accept-Encoding and no other
# authentication than our own header. They get functions that do nothing, by the list of what libcurl.a leaves undefined, so
# that patchbay-agent needs nothing but libc of the node or of its image.
option(CNI_STATIC_CURL "patchbay-agent has libcurl, OpenSSL and libyaml linked in, where they have archives" ON)
set(CURL_LINKED)
if(NOT CNI_AGENT)
  return()
endif()

set(_unreached "^(gss_|GSS_C_|ldap_|ber_|libssh2_|nghttp2_|nghttp3_|ngtcp2_|RTMP_|psl_|idn2_|Brotli|ZSTD_)")
set(_archives)
foreach(name curl ssl crypto z)
  find_library(CNI_ARCHIVE_${name} lib${name}.a HINTS ${CURL_STATIC_LIBRARY_DIRS})
  mark_as_advanced(CNI_ARCHIVE_${name})
  list(APPEND _archives ${CNI_ARCHIVE_${name}})
endforeach()

if(CNI_STATIC_CURL AND NOT CNI_SANITIZE AND NOT "${_archives}" MATCHES "NOTFOUND")
  execute_process(COMMAND ${CMAKE_NM} -u ${CNI_ARCHIVE_curl} OUTPUT_VARIABLE _listed ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_NM} -u ${CNI_ARCHIVE_ssl} ${CNI_ARCHIVE_crypto} OUTPUT_VARIABLE _of_ssl ERROR_QUIET)
  string(REGEX MATCHALL "U [A-Za-z0-9_]+" _undefined "${_listed}")
  list(TRANSFORM _undefined REPLACE "^U " "")
  list(REMOVE_DUPLICATES _undefined)
  set(_is_openssl FALSE)
  # OpenSSL that compresses certificates by zstd, as Debian 13's, offers it to servers: nothing can stand for that.
  if("SSL_CTX_new" IN_LIST _undefined AND NOT _of_ssl MATCHES "ZSTD_|Brotli")
    set(_is_openssl TRUE)
  endif()
  list(FILTER _undefined INCLUDE REGEX ${_unreached})
  list(SORT _undefined)
  set(_text)
  foreach(name IN LISTS _undefined)
    string(APPEND _text "long ${name}() { return 0; }\n")
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/curl_unreached.cc @ONLY CONTENT "extern \"C\" {\n@_text@}\n")
endif()

if(_is_openssl)
  add_library(curl_unreached STATIC ${PROJECT_BINARY_DIR}/curl_unreached.cc)
  set_target_properties(curl_unreached PROPERTIES UNITY_BUILD OFF INTERPROCEDURAL_OPTIMIZATION OFF)
  target_compile_options(curl_unreached PRIVATE -w)
  set(CURL_LINKED ${CNI_ARCHIVE_curl} curl_unreached ${CNI_ARCHIVE_ssl} ${CNI_ARCHIVE_crypto} ${CNI_ARCHIVE_z})
else()
  set(CURL_LINKED ${CURL_LINK_LIBRARIES})
endif()
cni_libraries(_yaml "${_is_openssl}" "${YAML_STATIC_LIBRARY_DIRS}" yaml)
list(APPEND CURL_LINKED ${_yaml})
# TLS of gRPC, by which the agent speaks with etcd: the OpenSSL of libcurl, linked in or shared.
cni_libraries(_tls "${_is_openssl}" "${CURL_STATIC_LIBRARY_DIRS}" ssl crypto)
list(APPEND GRPC_LINKED ${_tls})
if(TARGET grpc_core)
  set_target_properties(grpc_core PROPERTIES INTERFACE_LINK_LIBRARIES "${_tls}")
endif()

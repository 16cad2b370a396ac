#include "kubernetes/connection.h"

#include <curl/curl.h>

#include <algorithm>
#include <climits>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/printable.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace kubernetes {

namespace {

using cni::cat;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMaxHeaders = 64U << 10;
constexpr std::size_t kMaxPem = 1U << 20;
constexpr std::size_t kMaxToken = 64U << 10;

std::string content_of(const std::string& path, std::size_t most) {
  std::optional<std::string> text;
  try {
    text = netlink::read_regular_file(path);
  } catch (const netlink::Error& e) {
    throw ApiError(e.what(), {});
  }
  if (!text) throw ApiError(cat("read '", path, "': it does not exist"), {});
  if (text->size() > most) throw ApiError(cat("read '", path, "': more than ", most, " bytes"), {});
  return *std::move(text);
}

std::string text_of(const Pem& pem) {
  return pem.file.empty() ? pem.text : content_of(pem.file, kMaxPem);
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

// The value of a header, if the line is of that name.
std::optional<std::string_view> value_of(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || line[name.size()] != ':') return std::nullopt;
  const bool is_same = std::ranges::equal(line.substr(0, name.size()), name, {}, lower, lower);
  return is_same ? std::optional(line.substr(name.size() + 1)) : std::nullopt;
}

}  // namespace

std::string Request::what() const {
  std::string verb = method;
  std::ranges::transform(verb, verb.begin(), lower);
  return cat(verb, " '", path.substr(0, path.find('?')), "'");
}

std::string token_of(const Access& access) {
  std::string out =
      access.token_file.empty() ? access.token : content_of(access.token_file, kMaxToken);
  while (!out.empty() && (out.back() == '\n' || out.back() == '\r' || out.back() == ' ')) {
    out.pop_back();
  }
  const bool is_token = std::ranges::all_of(out, [](char c) { return c > ' ' && c < '\x7f'; });
  if (!is_token || (out.empty() && !access.token_file.empty())) {
    throw ApiError(cat("read token '", access.token_file, "': no token is in it"), {});
  }
  return out;
}

struct Connection::Impl {
  struct FreeEasy {
    void operator()(CURL* one) const noexcept { curl_easy_cleanup(one); }
  };
  struct FreeMulti {
    void operator()(CURLM* one) const noexcept { curl_multi_cleanup(one); }
  };
  struct FreeList {
    void operator()(curl_slist* one) const noexcept { curl_slist_free_all(one); }
  };
  using Headers = std::unique_ptr<curl_slist, FreeList>;

  Impl(const Access& of, const Stop& by) : access(of), stop(by) {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    easy.reset(curl_easy_init());
    multi.reset(curl_multi_init());
    if (!easy || !multi) throw std::bad_alloc();
  }

  template <class Value>
  void set(CURLoption option, Value value) {
    if (const CURLcode code = curl_easy_setopt(easy.get(), option, value); code != CURLE_OK) {
      throw ApiError(cat("prepare a request: option ", static_cast<int>(option), ": ",
                         curl_easy_strerror(code)),
                     {});
    }
  }
  void set_pem(CURLoption option, const std::string& text) {
    curl_blob blob{
        .data = const_cast<char*>(text.data()), .len = text.size(), .flags = CURL_BLOB_COPY};
    set(option, &blob);
  }

  void add(const std::string& line);
  void prepare(const Request& request, const std::string& token);
  void secure();
  void run(const Bounds& bounds);
  std::string why_failed(CURLcode code) const;
  milliseconds rest_of(const Bounds& bounds) const;
  CURLcode transfer(const Bounds& bounds);

  // Callbacks, through which no exception passes.
  template <class Fn>
  std::size_t guarded(std::size_t size, Fn fn) noexcept {
    try {
      fn();
      return size;
    } catch (...) {
      thrown = std::current_exception();
      return 0;  // fails the transfer
    }
  }
  static std::size_t on_header(const char* data, std::size_t, std::size_t size,
                               void* self) noexcept;
  static std::size_t on_body(const char* data, std::size_t, std::size_t size, void* self) noexcept;
  void header(std::string_view line);
  void body(std::string_view piece);

  const Access& access;
  const Stop& stop;
  std::unique_ptr<CURLM, FreeMulti> multi;
  std::unique_ptr<CURL, FreeEasy> easy;  // before multi is cleaned up

  // Of the request that is made.
  std::string what, url;
  Headers headers;
  Headers connect_to;
  Reply reply;
  std::size_t header_bytes = 0, most_body = 0;
  const OnPiece* on_piece = nullptr;
  Clock::time_point started;
  std::exception_ptr thrown;
  char problem[CURL_ERROR_SIZE] = "";
};

std::size_t Connection::Impl::on_header(const char* data, std::size_t, std::size_t size,
                                        void* self) noexcept {
  Impl& impl = *static_cast<Impl*>(self);
  return impl.guarded(size, [&] { impl.header({data, size}); });
}

std::size_t Connection::Impl::on_body(const char* data, std::size_t, std::size_t size,
                                      void* self) noexcept {
  Impl& impl = *static_cast<Impl*>(self);
  return impl.guarded(size, [&] { impl.body({data, size}); });
}

void Connection::Impl::header(std::string_view line) {
  header_bytes += line.size();
  if (header_bytes > kMaxHeaders) {
    throw ApiError(cat(what, ": more than ", kMaxHeaders, " bytes of headers"), {});
  }
  if (line.starts_with("HTTP/")) reply.retry_after.reset();  // also of an interim answer
  if (const auto value = value_of(line, "Retry-After")) reply.retry_after = retry_after_in(*value);
}

void Connection::Impl::body(std::string_view piece) {
  long status = 0;
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  if (on_piece != nullptr && *on_piece && status == 200) return (*on_piece)(piece);
  if (reply.body.size() + piece.size() > most_body) {
    throw ApiError(cat(what, ": the answer has more than ", most_body, " bytes"), {});
  }
  reply.body += piece;
}

void Connection::Impl::add(const std::string& line) {
  curl_slist* const grown = curl_slist_append(headers.get(), line.c_str());
  if (grown == nullptr) throw std::bad_alloc();
  static_cast<void>(headers.release());
  headers.reset(grown);
}

void Connection::Impl::prepare(const Request& request, const std::string& token) {
  curl_easy_reset(easy.get());  // keeps the connection
  what = request.what();
  headers.reset();
  add("Accept: application/json");
  add("Expect:");
  if (!token.empty()) add(cat("Authorization: Bearer ", token));
  if (*request.content_type != '\0') add(cat("Content-Type: ", request.content_type));
  set(CURLOPT_CUSTOMREQUEST, request.method);
  if (*request.content_type != '\0') {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.data());
  }
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_USERAGENT, "patchbay/" PATCHBAY_VERSION);
  set(CURLOPT_ERRORBUFFER, problem);
  set(CURLOPT_HEADERFUNCTION, &Impl::on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, &Impl::on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  url = access.server + request.path;
  secure();
  set(CURLOPT_URL, url.c_str());
}

void Connection::Impl::secure() {
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_PATH_AS_IS, 1L);  // no name of an object climbs in it
  set(CURLOPT_PROXY, "");       // not that of the environment
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_TCP_KEEPIDLE, 30L);
  set(CURLOPT_TCP_KEEPINTVL, 10L);
  const bool is_tls = access.server.starts_with("https:");
  set(CURLOPT_PROTOCOLS_STR, is_tls ? "https" : "http");
  if (!is_tls) return;
  set(CURLOPT_SSL_ENABLE_ALPN, 0L);  // HTTP/2 is not linked in: curl.cmake
  set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  // Read for each request: a file that changed makes another connection. The CA is the only one.
  if (!access.ca.empty()) {
    set_pem(CURLOPT_CAINFO_BLOB, text_of(access.ca));
    set(CURLOPT_CAINFO, static_cast<const char*>(nullptr));
    set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  }
  if (!access.certificate.empty()) {
    set_pem(CURLOPT_SSLCERT_BLOB, text_of(access.certificate));
    set_pem(CURLOPT_SSLKEY_BLOB, text_of(access.key));
  }
  if (access.server_name.empty()) return;
  // The name of the certificate is that of the URL, and the address another one.
  const std::string authority = url.substr(8, url.find('/', 8) - 8);
  const auto colon =
      authority.find(']') == authority.npos ? authority.find(':') : authority.find("]:") + 1;
  const bool has_port = colon != authority.npos && colon != 0;
  const std::string port = has_port ? authority.substr(colon + 1) : "443";
  const std::string host = has_port ? authority.substr(0, colon) : authority;
  connect_to.reset(
      curl_slist_append(nullptr, cat(access.server_name, ":", port, ":", host, ":", port).c_str()));
  set(CURLOPT_CONNECT_TO, connect_to.get());
  url = cat("https://", access.server_name, ":", port, url.substr(8 + authority.size()));
}

milliseconds Connection::Impl::rest_of(const Bounds& bounds) const {
  const auto now = Clock::now();
  milliseconds out(600'000);
  const auto limit = [&](Clock::time_point from, milliseconds time) {
    if (time == milliseconds::max()) return;
    out = std::min(out, std::chrono::ceil<milliseconds>(from + time - now));
  };
  if (header_bytes == 0) limit(started, bounds.answer);
  if (bounds.end != Clock::time_point::max()) limit(bounds.end, milliseconds(0));
  return out;
}

// Until the transfer ends, its time is over or stop() was called.
CURLcode Connection::Impl::transfer(const Bounds& bounds) {
  for (;;) {
    if (stop.is_set()) {
#if LIBCURL_VERSION_NUM >= 0x075700
      // Else the end of the transfer waits for a name server that does not answer, up to a minute.
      set(CURLOPT_QUICK_EXIT, 1L);
#endif
      throw ApiError(cat(what, ": stopped"), {.status = 0, .reason = "Stopped"});
    }
    int running = 0;
    curl_multi_perform(multi.get(), &running);
    int waiting = 0;
    if (const CURLMsg* const message = curl_multi_info_read(multi.get(), &waiting)) {
      return message->data.result;
    }
    const milliseconds rest = rest_of(bounds);
    if (rest.count() <= 0) {
      throw ApiError(cat(what, ": no answer of '", access.server, "' within the deadline"), {});
    }
    curl_waitfd stopped{.fd = stop.fd(), .events = CURL_WAIT_POLLIN, .revents = 0};
    curl_multi_poll(multi.get(), &stopped, 1, static_cast<int>(rest.count()), nullptr);
  }
}

void Connection::Impl::run(const Bounds& bounds) {
  set(CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(std::clamp<milliseconds::rep>(bounds.connect.count(), 1, LONG_MAX)));
  problem[0] = '\0';
  thrown = nullptr;
  header_bytes = 0;
  reply = {};
  started = Clock::now();
  if (curl_multi_add_handle(multi.get(), easy.get()) != CURLM_OK) throw std::bad_alloc();
  struct Removal {  // ends the transfer if it has not ended
    Impl& of;
    ~Removal() { curl_multi_remove_handle(of.multi.get(), of.easy.get()); }
  };
  CURLcode code = CURLE_OK;
  {
    const Removal removal{*this};
    code = transfer(bounds);
    long status = 0;
    curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
    reply.status = static_cast<int>(status);
  }
  if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
  if (code == CURLE_OK) return;
  throw ApiError(cat(what, ": no whole answer of '", access.server, "': ", why_failed(code)), {});
}

// The same text for the same cause: libcurl's own has milliseconds and bytes, and a log would have
// a line for each of them.
std::string Connection::Impl::why_failed(CURLcode code) const {
  const bool is_detailed = code == CURLE_PEER_FAILED_VERIFICATION ||
                           code == CURLE_SSL_CONNECT_ERROR || code == CURLE_SSL_CERTPROBLEM ||
                           code == CURLE_SSL_CACERT_BADFILE || code == CURLE_COULDNT_RESOLVE_HOST;
  if (is_detailed && problem[0] != '\0') return cni::printable_text(problem);
  std::string out = curl_easy_strerror(code);
  long number = 0;
  curl_easy_getinfo(easy.get(), CURLINFO_OS_ERRNO, &number);
  if (number != 0) out += cat(": ", netlink::errno_text(static_cast<int>(number)));
  return out;
}

Connection::Connection(const Access& access, const Stop& stop)
    : impl_(std::make_unique<Impl>(access, stop)) {}

Connection::~Connection() = default;

Reply Connection::perform(const Request& request, const std::string& token, const Bounds& bounds,
                          const OnPiece& on_piece) {
  impl_->most_body = bounds.body;
  impl_->on_piece = &on_piece;
  impl_->prepare(request, token);
  impl_->run(bounds);
  return std::exchange(impl_->reply, {});
}

}  // namespace kubernetes

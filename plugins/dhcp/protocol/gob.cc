#include "plugins/dhcp/protocol/gob.h"

#include <algorithm>

#include "libcni/common/error.h"

namespace dhcp::gob {

namespace {

using cni::cat;

constexpr unsigned kMaxDepth = 16;
constexpr std::size_t kMaxTypes = 256, kMaxFields = 64;
constexpr std::int64_t kBool = 1;
// Fields of a type definition (Go's encoding/gob, "wireType").
constexpr int kSliceField = 1, kStructField = 2;

[[noreturn]] void fail(const char* why) {
  throw cni::Error(cni::Code::kDecodingFailure,
                   cat("a message of the DHCP socket is no gob: ", why));
}

// The bytes of a number, and their count in front where it is not one below 128. Nothing where it
// is not whole.
struct Number {
  std::uint64_t value;
  std::size_t size;
};
std::optional<Number> number_at(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  const auto first = static_cast<std::uint8_t>(bytes[0]);
  if (first < 128) return Number{first, 1};
  const std::size_t count = 256U - first;
  if (count > 8) fail("a number of more than 64 bits");
  if (bytes.size() < 1 + count) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = 1; i <= count; ++i) {
    value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
  }
  return Number{value, 1 + count};
}

}  // namespace

class Decoder::Cursor {
 public:
  explicit Cursor(std::string_view rest) : rest_(rest) {}

  bool at_end() const { return rest_.empty(); }
  std::size_t left() const { return rest_.size(); }
  std::uint64_t number() {
    const auto found = number_at(rest_);
    if (!found) fail("it is cut off");
    rest_.remove_prefix(found->size);
    return found->value;
  }
  std::int64_t integer() {
    const std::uint64_t raw = number();
    const auto half = static_cast<std::int64_t>(raw >> 1);
    return (raw & 1) != 0 ? ~half : half;
  }
  std::string text() {
    const std::uint64_t size = number();
    if (size > rest_.size()) fail("it is cut off");
    std::string out(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return out;
  }
  /// A count of elements, each of which takes at least one byte.
  std::size_t count() {
    const std::uint64_t out = number();
    if (out > rest_.size()) fail("a list that is longer than its message");
    return out;
  }
  /// Calls fn with the index of each field that is there.
  template <class Fn>
  void fields(Fn&& fn) {
    std::int64_t index = -1;
    while (const std::uint64_t step = number()) {
      if (step > kMaxFields || (index += static_cast<std::int64_t>(step)) > 2 * int(kMaxFields)) {
        fail("a struct with too many fields");
      }
      fn(static_cast<int>(index));
    }
  }

 private:
  std::string_view rest_;
};

const Value& Value::field(std::string_view name) const {
  static const Value kNone;
  const auto found = fields.find(name);
  return found == fields.end() ? kNone : found->second;
}

std::optional<Value> Decoder::take(std::string& received) {
  for (;;) {
    const auto size = number_at(received);
    if (size && size->value > kMaxMessage) fail("it is too large");
    if (!size || received.size() - size->size < size->value) return std::nullopt;
    const std::string bytes = received.substr(size->size, size->value);
    received.erase(0, size->size + size->value);
    Cursor in(bytes);
    const std::int64_t type = in.integer();
    if (type < 0) {
      define(-type, in);
      continue;
    }
    const auto known = types_.find(type);
    if (known == types_.end() || known->second.element != 0) fail("not a struct");
    return value(type, in, 0);
  }
}

void Decoder::define(std::int64_t id, Cursor& in) {
  if (types_.size() >= kMaxTypes) fail("too many types");
  Type type;
  // Name and number, which say nothing new.
  const auto common = [&in] {
    in.fields([&in](int field) { field == 0 ? void(in.text()) : void(in.integer()); });
  };
  in.fields([&](int kind) {
    if (kind != kSliceField && kind != kStructField) fail("a type that no DHCP call has");
    in.fields([&](int field) {
      if (field == 0) return common();
      if (kind == kSliceField) return void(type.element = in.integer());
      const std::size_t count = in.count();
      if (count > kMaxFields) fail("a struct with too many fields");
      for (std::size_t i = 0; i < count; ++i) {
        auto& name_and_type = type.fields.emplace_back();
        in.fields([&](int part) {
          if (part == 0) {
            name_and_type.first = in.text();
          } else {
            name_and_type.second = in.integer();
          }
        });
      }
    });
  });
  types_.insert_or_assign(id, std::move(type));
}

Value Decoder::value_of(const Type& type, Cursor& in, unsigned depth) const {
  Value out;
  if (type.element != 0) {
    const std::size_t count = in.count();
    for (std::size_t i = 0; i < count; ++i) {
      out.list.push_back(value(type.element, in, depth + 1));
    }
    return out;
  }
  in.fields([&](int index) {
    if (static_cast<std::size_t>(index) >= type.fields.size()) fail("a field that its type lacks");
    const auto& [name, number] = type.fields[static_cast<std::size_t>(index)];
    out.fields.insert_or_assign(name, value(number, in, depth + 1));
  });
  return out;
}

Value Decoder::value(std::int64_t type, Cursor& in, unsigned depth) const {
  if (depth > kMaxDepth) fail("it nests too deep");
  switch (type) {
    case kBool:
    case kUint:
      return {.number = in.number()};
    case kInt:
      return {.number = static_cast<std::uint64_t>(in.integer())};
    case kBytes:
    case kString:
      return {.text = in.text()};
    default:
      break;
  }
  const auto known = types_.find(type);
  if (known == types_.end()) fail("a type that is not defined");
  return value_of(known->second, in, depth);
}

std::string unsigned_integer(std::uint64_t value) {
  if (value < 128) return std::string(1, static_cast<char>(value));
  std::string bytes;
  for (; value != 0; value >>= 8) bytes.insert(bytes.begin(), static_cast<char>(value & 0xff));
  return static_cast<char>(256 - bytes.size()) + bytes;
}

std::string signed_integer(std::int64_t value) {
  const auto doubled = static_cast<std::uint64_t>(value) << 1;
  return unsigned_integer(value < 0 ? ~doubled : doubled);
}

std::string counted(std::string_view text) { return unsigned_integer(text.size()).append(text); }

std::string message(std::int64_t type, std::string_view body) {
  return counted(signed_integer(type).append(body));
}

std::string define_struct(std::int64_t id, std::string_view name,
                          const std::vector<std::pair<std::string_view, std::int64_t>>& fields) {
  std::vector<std::string> list;
  for (const auto& [field, type] : fields) {
    list.push_back(Struct().text(0, field).integer(1, type).str());
  }
  const std::string common = Struct().text(0, name).integer(1, id).str();
  const std::string whole = Struct().encoded(0, common).list(1, list).str();
  return message(-id, Struct().encoded(kStructField, whole).str());
}

std::string define_list(std::int64_t id, std::int64_t element) {
  const std::string common = Struct().integer(1, id).str();
  const std::string whole = Struct().encoded(0, common).integer(1, element).str();
  return message(-id, Struct().encoded(kSliceField, whole).str());
}

Struct& Struct::encoded(unsigned field, std::string_view value) {
  const int index = static_cast<int>(field);
  out_ += unsigned_integer(static_cast<std::uint64_t>(index - last_));
  out_ += value;
  last_ = index;
  return *this;
}

Struct& Struct::text(unsigned field, std::string_view value) {
  return value.empty() ? *this : encoded(field, counted(value));
}

Struct& Struct::number(unsigned field, std::uint64_t value) {
  return value == 0 ? *this : encoded(field, unsigned_integer(value));
}

Struct& Struct::integer(unsigned field, std::int64_t value) {
  return encoded(field, signed_integer(value));
}

Struct& Struct::list(unsigned field, const std::vector<std::string>& elements) {
  if (elements.empty()) return *this;
  std::string all = unsigned_integer(elements.size());
  for (const std::string& element : elements) all += element;
  return encoded(field, all);
}

}  // namespace dhcp::gob

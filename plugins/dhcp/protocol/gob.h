#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The wire format that the daemon of the reference plugins speaks (Go's encoding/gob): messages
/// with a length in front, which define types or have a value of one. As far as its calls need it:
/// no floating-point numbers, complex numbers, interfaces and maps.
namespace dhcp::gob {

/// A value as it was received: what its type is called does not matter, the names of its fields do.
/// A zero is not sent.
struct Value {
  std::uint64_t number =
      0;                  ///< of a boolean and an unsigned integer; of a signed one as it is cast
  std::string text = {};  ///< of a string, or bytes
  std::vector<Value> list = {};
  std::map<std::string, Value, std::less<>> fields = {};

  /// A zero value where there is none.
  const Value& field(std::string_view name) const;
  bool has(std::string_view name) const { return fields.contains(name); }
};

/// The messages of one direction of a connection.
class Decoder {
 public:
  /// Takes the next value, and the types that are defined before it, off the front of received;
  /// nothing as long as it is not whole. \throws cni::Error(kDecodingFailure) for what is no gob,
  /// and for messages of more than kMaxMessage bytes.
  std::optional<Value> take(std::string& received);

  static constexpr std::size_t kMaxMessage = 1U << 22;

 private:
  class Cursor;
  struct Type {
    std::int64_t element = 0;  ///< of a list; 0: it is a struct
    std::vector<std::pair<std::string, std::int64_t>> fields = {};
  };
  void define(std::int64_t id, Cursor& in);
  Value value(std::int64_t type, Cursor& in, unsigned depth) const;
  Value value_of(const Type& type, Cursor& in, unsigned depth) const;

  std::map<std::int64_t, Type> types_;
};

/// Numbers of types that need no definition.
inline constexpr std::int64_t kInt = 2, kUint = 3, kBytes = 5, kString = 6;

std::string unsigned_integer(std::uint64_t value);
std::string signed_integer(std::int64_t value);
std::string counted(std::string_view text);
/// With its length in front.
std::string message(std::int64_t type, std::string_view body);

/// The definition of a type, as a message. id: from 64 on.
std::string define_struct(std::int64_t id, std::string_view name,
                          const std::vector<std::pair<std::string_view, std::int64_t>>& fields);
std::string define_list(std::int64_t id, std::int64_t element);

/// The fields of a struct, in ascending order; the first one is 0.
class Struct {
 public:
  /// Left out where it is empty, as gob wants it.
  Struct& text(unsigned field, std::string_view value);
  Struct& number(unsigned field, std::uint64_t value);
  /// Also where it is zero.
  Struct& integer(unsigned field, std::int64_t value);
  /// A value that is encoded already.
  Struct& encoded(unsigned field, std::string_view value);
  Struct& list(unsigned field, const std::vector<std::string>& elements);
  /// The whole struct.
  std::string str() const { return out_ + '\0'; }

 private:
  std::string out_;
  int last_ = -1;
};

}  // namespace dhcp::gob

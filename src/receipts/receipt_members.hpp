#pragma once

#include "io/checksum.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace varve {

/// Reads the JSON of a receipt of any kind. Throws InputError, naming the file, if it is none of these kinds.
nlohmann::ordered_json read_receipt_json(std::filesystem::path const& path, std::vector<std::string> const& kinds);

/// The version of the files of all receipts.
inline constexpr std::uint64_t kReceiptVersion = 1;

/// Members of a JSON object in a receipt. All functions throw InputError, naming the place, if a member is missing or
/// of another type.
class ReceiptMembers {
public:
  /// The object must outlive this one.
  ReceiptMembers(nlohmann::ordered_json const& object, std::string place);

  nlohmann::ordered_json const& member(std::string const& name) const;
  std::string text(std::string const& name) const;
  std::uint64_t number(std::string const& name) const;
  std::vector<std::string> texts(std::string const& name) const;
  /// `count` digests in one text, 64 hexadecimal digits each.
  std::vector<Digest> digests(std::string const& name, std::size_t count) const;
  Digest digest(std::string const& name) const { return digests(name, 1).front(); }
  /// The numerics of a bound part, as an int; one that is too large becomes the largest.
  int numerics() const;

private:
  [[noreturn]] void fail(std::string const& name, std::string const& expected) const;

  nlohmann::ordered_json const& object_;
  std::string place_;
};

/// The digests as one text, which ReceiptMembers::digests() reads.
std::string hex_of(std::vector<Digest> const& digests);

} // namespace varve

#pragma once

#include "io/byte_stream.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace varve {

/// True if a file begins like a ZIP archive. Throws InputError, naming the file, if it cannot be read.
bool is_zip(std::filesystem::path const& path);

/// A ZIP archive whose members are stored or deflated. Members are read as streams, so that memory does not depend on
/// the sizes that the archive claims.
class ZipFile {
public:
  /// Throws InputError, naming the file, if it is no archive, has a name twice, or if this build of Varve
  /// lacks libzip.
  explicit ZipFile(std::filesystem::path const& path);
  ~ZipFile();

  bool has(std::string const& member) const;

  /// The bytes of a member; the archive must outlive them, and they throw InputError if they are broken. Throws
  /// InputError, naming file and member, if there is no such member, or it is encrypted or compressed in another way.
  std::unique_ptr<ByteSource> open(std::string const& member) const;

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

} // namespace varve

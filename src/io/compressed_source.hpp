#pragma once

#include "io/byte_stream.hpp"
#include "io/stored_bytes.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace varve {

/// Throws InputError that the file ends before its data, compressed in this format, does.
[[noreturn]] void fail_truncated(std::filesystem::path const& path, char const* format);

/// Base class that runs a decompressor over all members of a file; a derived class implements one decompression step.
class CompressedSource : public ByteSource {
public:
  /// `format` names the compression in messages.
  CompressedSource(std::unique_ptr<StoredBytes> stored, char const* format);

  std::size_t read(std::span<char> buffer) final;

protected:
  /// The result of one call to a decompressor.
  struct Step {
    std::size_t consumed = 0;
    std::size_t produced = 0;
    bool member_ended = false;
  };

  [[noreturn]] void fail_corrupt(char const* reason) const;
  virtual void begin_member() = 0;
  /// Decompresses a part of `in` into `out`; `in` is empty at the end of the file.
  virtual Step advance(std::string_view in, std::span<char> out) = 0;

private:
  std::unique_ptr<StoredBytes> stored_;
  char const* format_;
  bool in_member_ = false;
};

} // namespace varve

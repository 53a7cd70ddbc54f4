#pragma once

#include <span>

namespace varve {

/// Inflates whole streams in zlib's format, by libdeflate where the build has it, which takes less than half of zlib's
/// time, else by zlib. One object serves one thread at a time.
class Inflater {
public:
  Inflater() = default;
  ~Inflater();
  Inflater(Inflater const&) = delete;
  Inflater& operator=(Inflater const&) = delete;

  /// Inflates `in` to `out`. Returns false if `in` is corrupt or truncated or does not give exactly out.size() bytes,
  /// or if there is no memory for it.
  bool inflate(std::span<char const> in, std::span<char> out);

private:
  void* state_ = nullptr; ///< libdeflate's decompressor, made by the first call; zlib keeps none
};

} // namespace varve

#pragma once

#include "io/element_type.hpp"
#include "io/inflater.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace varve {

/// How the numbers of a chunk of an HDF5 list are stored. The filters were applied in the order of the members.
struct ChunkFormat {
  ElementType type;
  std::size_t length = 0;    ///< numbers per chunk
  bool is_shuffled = false;  ///< the first bytes of all numbers come first, then all second bytes, and so on
  bool is_deflated = false;  ///< in zlib's format
  bool has_checksum = false; ///< HDF5's Fletcher-32 of the bytes before it stands at the end

  /// Bytes of the numbers without filters.
  std::size_t bytes() const { return length * type.size; }
};

/// Numbers of a chunk that lie one after the other, and where they go.
template <class Element>
struct ChunkRun {
  std::size_t first = 0; ///< of the chunk
  std::span<Element> elements;
};

/// HDF5's Fletcher-32 checksum of some bytes.
std::uint32_t fletcher32(std::span<char const> bytes);

/// Decodes chunks of one format as HDF5 does. One object serves one thread at a time.
class ChunkDecoder {
public:
  explicit ChunkDecoder(ChunkFormat const& format) : format_(format) {}
  ~ChunkDecoder();
  ChunkDecoder(ChunkDecoder const&) = delete;
  ChunkDecoder& operator=(ChunkDecoder const&) = delete;

  /// True if every number of this type becomes an Element as HDF5 converts it.
  template <class Element>
  static bool converts(ElementType type);

  /// Converts the numbers from `first` on of a chunk to `elements`. Returns false, and leaves `elements` in any state,
  /// if the stored bytes are not those of one chunk, or if their checksum is wrong.
  template <class Element>
  bool decode(std::span<char const> stored, std::size_t first, std::span<Element> elements) {
    ChunkRun<Element> const run{first, elements};
    return decode(stored, std::span<ChunkRun<Element> const>(&run, 1));
  }

  /// The same for several parts of a chunk.
  template <class Element>
  bool decode(std::span<char const> stored, std::span<ChunkRun<Element> const> runs);

private:
  /// Undoes all filters but the shuffle. Returns no bytes if a filter fails.
  std::span<char const> filtered(std::span<char const> stored);

  ChunkFormat format_;
  Inflater inflater_;
  std::vector<char> inflated_;
};

} // namespace varve

#pragma once

#include "core/execution.hpp"
#include "core/intrinsics.hpp"
#include "core/pack.hpp"
#include "core/views.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// The unit of copies, 16 bytes. 32-bit words for every scalar type: on a GPU, 16-bit numbers would be unpacked as soon
/// as they are loaded, which waits for the load.
using ScratchPiece = Pack<std::uint32_t, 4>;

/// Source of 16 bytes of a chunk. If not is_there, `address` is any valid address and the chunk gets zeros.
struct SourcePiece {
  ScratchPiece const* address;
  bool is_there;
};

/// Piece `number` of an array; zeros past its end.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION SourcePiece source_piece(ArrayView<T const> const& array, std::size_t number) {
  bool const is_there = number < array.size() / (sizeof(ScratchPiece) / sizeof(T));
  return {&piece_of<ScratchPiece>(array, is_there ? number : 0), is_there};
}

/// Source of one number of a chunk. If not is_there, `address` is any valid address and the chunk gets a zero.
template <class Scalar>
struct SourceNumber {
  Scalar const* address;
  bool is_there;
};

/// Numbers of a chunk that a source copies one by one; 0 unless it declares num_numbers.
template <class Source>
constexpr int num_single_numbers() {
  if constexpr (requires { Source::num_numbers; }) {
    return Source::num_numbers;
  } else {
    return 0;
  }
}

/// Copies a stream of chunks to team scratch while the team computes with earlier chunks. On NVIDIA GPUs with
/// asynchronous copies to scratch, `Stages` buffers rotate and Stages - 1 chunks are in flight. Elsewhere one chunk is
/// in flight, in registers, and two buffers alternate. (Asynchronous copies also bind the compiler, which otherwise
/// moves loads to registers past the computation that should hide them.) One barrier per chunk. The last `Kept` chunks
/// before the present one stay, in additional buffers.
///
/// `Source` has `static constexpr int num_pieces`, the pieces of 16 bytes of a chunk, and
/// `SourcePiece at(int chunk, int first, int rank) const`: piece first + rank of the chunk, where `first` is a
/// compile-time multiple of TeamSize and `rank` the rank of the thread. Numbers that are not aligned to 16 bytes follow
/// the pieces, one by one: `static constexpr int num_numbers` and
/// `SourceNumber<Scalar> number_at(int chunk, int first, int rank) const`.
template <class ExecutionSpace, class Scalar, class Source, int TeamSize, int Stages, int Kept = 0>
class ChunkPipeline {
public:
  static constexpr bool copies = kHasScratchCopies && !kOnHost<ExecutionSpace>;
  static constexpr int num_buffers = (copies ? Stages : 2) + Kept;
  static constexpr int pieces_size = Source::num_pieces * 16 / static_cast<int>(sizeof(Scalar));
  static constexpr int num_numbers = num_single_numbers<Source>();
  static constexpr int buffer_size = pieces_size + num_numbers;
  static constexpr int size = num_buffers * buffer_size; ///< numbers in team scratch
  static_assert(Stages >= 2);

  /// Starts the first chunks. All threads of the team must call it and await(). `buffers`: `size` numbers of team
  /// scratch that no thread of the team still reads.
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION void start(Member const& team, ArrayView<Scalar> const& buffers, Source const& source) {
    if constexpr (copies) {
      VARVE_UNROLL
      for (int chunk = 0; chunk < Stages - 1; ++chunk) copy_chunk(team.team_rank(), buffers, source, chunk);
    } else {
      load_chunk(team.team_rank(), source, 0);
    }
  }

  /// Waits for a chunk, starts a later one and returns the numbers. Chunks are 0, 1, 2, ... after start().
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION ArrayView<Scalar const> await(Member const& team, ArrayView<Scalar> const& buffers,
                                                            Source const& source, int chunk) {
    int const rank = team.team_rank();
    if constexpr (copies) {
      await_scratch_copies<Stages - 2>();
      team.team_barrier(); // all threads see this chunk and have finished with the buffer that is overwritten next
      copy_chunk(rank, buffers, source, chunk + Stages - 1);
    } else {
      store_chunk(rank, buffers, chunk);
      team.team_barrier();
      load_chunk(rank, source, chunk + 1);
    }
    return buffer_of(buffers, chunk);
  }

  /// The numbers of a chunk that has arrived.
  KOKKOS_FORCEINLINE_FUNCTION static ArrayView<Scalar> buffer_of(ArrayView<Scalar> const& buffers, int chunk) {
    return part_of(buffers, static_cast<std::size_t>(chunk % num_buffers * buffer_size), buffer_size);
  }

private:
  /// The most of `Count` pieces or numbers that one thread copies.
  template <int Count>
  static constexpr int per_thread = (Count + TeamSize - 1) / TeamSize;

  /// Calls visit(i, first) for each of the `Count` pieces or numbers of a chunk that this thread copies; the i-th is
  /// first + rank.
  template <int Count, class Visit>
  KOKKOS_FORCEINLINE_FUNCTION static void for_own(int rank, Visit const& visit) {
    VARVE_UNROLL
    for (int i = 0; i < per_thread<Count>; ++i) {
      if (Count % TeamSize == 0 || i * TeamSize + rank < Count) visit(i, i * TeamSize);
    }
  }

  /// Place in a buffer of a number that is copied alone.
  KOKKOS_FORCEINLINE_FUNCTION static Scalar& place_in(ArrayView<Scalar> const& buffer, int number) {
    return buffer(static_cast<std::size_t>(pieces_size + number));
  }

  KOKKOS_FORCEINLINE_FUNCTION static void copy_chunk(int rank, ArrayView<Scalar> const& buffers, Source const& source,
                                                     int chunk) {
    auto const to = buffer_of(buffers, chunk);
    for_own<Source::num_pieces>(rank, [&](int, int first) {
      auto const from = source.at(chunk, first, rank);
      begin_scratch_copy(&piece_of<ScratchPiece>(to, first + rank), from.address, from.is_there);
    });
    if constexpr (num_numbers != 0) {
      for_own<num_numbers>(rank, [&](int, int first) {
        auto const from = source.number_at(chunk, first, rank);
        begin_scratch_copy(&place_in(to, first + rank), from.address, from.is_there);
      });
    }
    end_scratch_copies();
  }

  KOKKOS_FORCEINLINE_FUNCTION void load_chunk(int rank, Source const& source, int chunk) {
    for_own<Source::num_pieces>(rank, [&](int i, int first) {
      auto const from = source.at(chunk, first, rank);
      clear(in_flight_[i]);
      if (from.is_there) copy(in_flight_[i], *from.address);
    });
    if constexpr (num_numbers != 0) {
      for_own<num_numbers>(rank, [&](int i, int first) {
        auto const from = source.number_at(chunk, first, rank);
        numbers_in_flight_[i] = from.is_there ? *from.address : Scalar(0);
      });
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void store_chunk(int rank, ArrayView<Scalar> const& buffers, int chunk) const {
    auto const to = buffer_of(buffers, chunk);
    for_own<Source::num_pieces>(
        rank, [&](int i, int first) { copy(piece_of<ScratchPiece>(to, first + rank), in_flight_[i]); });
    if constexpr (num_numbers != 0)
      for_own<num_numbers>(rank, [&](int i, int first) { place_in(to, first + rank) = numbers_in_flight_[i]; });
  }

  /// Registers for the pieces or numbers of a thread in flight, `Count` per chunk; 1 if registers are not used.
  template <int Count>
  static constexpr int in_registers = copies || Count == 0 ? 1 : per_thread<Count>;

  ScratchPiece in_flight_[in_registers<Source::num_pieces>] = {};
  Scalar numbers_in_flight_[in_registers<num_numbers>] = {};
};

} // namespace varve

#pragma once

#include "core/error.hpp"
#include "formats/cone_programs.hpp"
#include "formats/counted_layer.hpp"
#include "formats/csr.hpp"
#include "formats/dense_blocks.hpp"
#include "formats/sliced_ell.hpp"
#include "formats/staged_blocks.hpp"
#include "kernels/tuning.hpp"
#include "plan/choose.hpp"

#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace varve {

/// The formats of layers on an execution space, and the conversion of a layer to the one that the plan chose: several
/// threads encode() layers on the host, then place() copies them to the device one by one.
template <class ExecutionSpace, class Scalar>
struct LayerFormats {
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Short = std::uint16_t;
  using Long = std::uint32_t;

  using FusedBlocks =
      SlicedEll<ExecutionSpace, Scalar, Short, Tune::slice_width, Tune::chunk_size, Tune::block_outputs>;
  template <class Index>
  using WideBlocks = SlicedEll<ExecutionSpace, Scalar, Index, 1, Tune::chunk_size, Tune::wide_block_outputs>;
  template <class Index>
  using Single = SlicedEll<ExecutionSpace, Scalar, Index, Tune::slice_width, Tune::chunk_size, 1>;
  using Staged = StagedBlocks<ExecutionSpace, Scalar, Tune::staged_slice_width, Tune::chunk_size, 1>;
  using Dense = DenseBlocks<ExecutionSpace, Scalar, Tune::dense_outputs, Tune::dense_chunk>;
  using FewSlices = SlicedEll<ExecutionSpace, Scalar, Short, Tune::few_outputs, 1, 1>; ///< for the small-batch kernel
  using FewDense = DenseBlocks<ExecutionSpace, Scalar, Tune::few_outputs, Tune::few_dense_chunk, Tune::few_dense_piece>;
  template <class Index>
  using Rows = Csr<ExecutionSpace, Scalar, Index>;
  using Cones =
      ConePrograms<ExecutionSpace, Scalar, Tune::cone_group_size, Tune::ConeTile::num_samples * sizeof(Scalar)>;
  using Counted = CountedLayer<ExecutionSpace, Scalar>;
  using Columns = Csc<ExecutionSpace, Scalar>;
  static_assert(!std::is_same_v<FusedBlocks, WideBlocks<Short>>, "the variants below tell them apart by type");

  using Format = std::variant<FusedBlocks, WideBlocks<Short>, WideBlocks<Long>, Single<Short>, Single<Long>, Staged,
                              Dense, FewSlices, FewDense, Rows<Short>, Rows<Long>, Cones, Counted, Columns>;

  /// A layer for CSR, which is not encoded on the host.
  template <class Index>
  struct EncodedRows {
    using Format = Rows<Index>;
    EdgeOffset num_edges = 0;
    std::size_t bytes() const { return num_edges * (sizeof(Index) + sizeof(Scalar)); }
  };
  using Encoded =
      std::variant<typename FusedBlocks::Encoded, typename WideBlocks<Short>::Encoded,
                   typename WideBlocks<Long>::Encoded, typename Single<Short>::Encoded, typename Single<Long>::Encoded,
                   typename Staged::Encoded, typename Dense::Encoded, typename FewSlices::Encoded,
                   typename FewDense::Encoded, EncodedRows<Short>, EncodedRows<Long>>;

  /// Throws InputError if the layer exceeds the range of the format's index or scalar types.
  static Encoded encode(Layer const& layer, Encoding encoding) {
    SparseMatrix const& matrix = layer.weights;
    LayerChoice const& choice = encoding.choice;
    bool const is_short = has_short_inputs(matrix.num_columns);
    bool const is_for_few = choice.kernel == KernelName::small_batch;
    switch (choice.format) {
    case FormatName::pattern_blocks:
      if (choice.shape == FusedBlocks::shape()) return FusedBlocks::encode(matrix, std::move(encoding.order));
      return encode_as<WideBlocks>(matrix, std::move(encoding.order), is_short);
    case FormatName::sliced_ell:
      if (is_for_few) return FewSlices::encode(matrix, std::move(encoding.order));
      return encode_as<Single>(matrix, std::move(encoding.order), is_short, choice.range_inputs);
    case FormatName::staged_blocks:
      return Staged::encode(matrix, std::move(*encoding.stages));
    case FormatName::dense:
      if (choice.shape == FewDense::shape()) return FewDense::encode(matrix);
      return Dense::encode(matrix);
    default:
      break;
    }
    VARVE_REQUIRE(choice.format == FormatName::csr, "cones are placed, not encoded");
    if (is_short) return EncodedRows<Short>{layer.num_edges()};
    return EncodedRows<Long>{layer.num_edges()};
  }

  static Format place(Layer const& layer, Encoded const& encoded, LayerArrays<ExecutionSpace> const& arrays) {
    return std::visit(
        [&]<class One>(One const& one) -> Format {
          using F = typename One::Format;
          if constexpr (std::is_constructible_v<F, Layer const&, LayerArrays<ExecutionSpace>>) {
            return F(layer, arrays);
          } else {
            return F(layer, one, arrays);
          }
        },
        encoded);
  }

  /// A further copy of layer 0, for samples whose values are all equal, or that have few entries.
  static Format place_first(Layer const& layer, FirstLayerChoice const& choice) {
    if (choice.way == FirstLayerInput::counts) return Counted(layer);
    if (choice.way == FirstLayerInput::entries) return Columns(layer);
    if (has_short_inputs(layer.num_inputs()))
      return Single<Short>(layer, Single<Short>::encode(layer.weights, choice.order));
    return Single<Long>(layer, Single<Long>::encode(layer.weights, choice.order));
  }

private:
  template <template <class> class Ell>
  static Encoded encode_as(SparseMatrix const& matrix, std::vector<NeuronIndex> order, bool is_short,
                           std::size_t range_inputs = 0) {
    auto const encoded = [&]<class F>() -> Encoded {
      if constexpr (F::may_have_ranges) {
        if (range_inputs > 0) return F::encode_ranges(matrix, std::move(order), range_inputs);
      }
      return F::encode(matrix, std::move(order));
    };
    return is_short ? encoded.template operator()<Ell<Short>>() : encoded.template operator()<Ell<Long>>();
  }
};

} // namespace varve

#pragma once

#include "engine/layer_store.hpp"
#include "plan/choose.hpp"
#include "plan/cuts.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace varve {

/// Cuts layers of which a device cannot hold two into strips, in the plan and in the store.
class StripCutter {
public:
  /// All must outlive this object. The store must hold all layers, `planned` their choices.
  StripCutter(KernelSet const& kernels, LayerChooser const& chooser, LayerStore& store,
              std::vector<PlannedLayer>& planned)
      : kernels_(kernels), chooser_(chooser), store_(store), planned_(planned) {}

  /// Throws ResourceError, naming the needed memory, if not even the smallest strips fit.
  void cut(NetworkSource const& source);

private:
  std::size_t min_bytes(Layer const& layer, std::size_t number) const;
  bool fits(std::size_t strip_bytes) const { return 2 * strip_bytes <= store_.room_for_stream().most; }
  [[noreturn]] void refuse(NetworkSource const& source, std::vector<std::size_t> const& numbers) const;
  void cut_layer(Layer const& layer, std::size_t number);

  KernelSet const& kernels_;
  LayerChooser const& chooser_;
  LayerStore& store_;
  std::vector<PlannedLayer>& planned_;
};

/// Makes the image of a layer or of a strip again, for a host that cannot keep it. Keeps the layer that it read last
/// until its last strip was made. Several threads may call it at a time.
class PieceMaker {
public:
  /// Kernels and chooser must outlive this object.
  PieceMaker(KernelSet const& kernels, LayerChooser const& chooser, std::shared_ptr<NetworkSource const> source,
             std::vector<PlannedLayer> const& planned);

  std::vector<unsigned char> operator()(LayerStore::Piece const& piece) const;

private:
  struct Cut {
    LayerChoice choice;
    std::vector<PlannedStrip> strips;
  };
  struct LastLayer;

  std::vector<unsigned char> image_of(Layer const& layer, Encoding encoding) const;
  std::shared_ptr<Layer const> layer_to_cut(std::size_t number, bool is_last) const;

  KernelSet const* kernels_;
  LayerChooser const* chooser_;
  std::shared_ptr<NetworkSource const> source_;
  std::vector<Cut> cuts_;
  std::shared_ptr<LastLayer> last_; ///< shared between copies of the function object
};

} // namespace varve

#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace varve {

/// Weights to begin training with.
enum class InitialWeights {
  he,      ///< random, scaled so that activations keep their size from layer to layer
  identity ///< in layers with as many inputs as outputs: 1 on the diagonal, small random numbers elsewhere
};

/// "he" or "identity".
std::string to_string(InitialWeights weights);

/// The initial weights with this name. Throws UsageError, which lists the valid names, if there are none.
InitialWeights parse_initial_weights(std::string const& name);

/// The parameters of an initial network.
struct InitialRecipe {
  InitialWeights weights = InitialWeights::he;
  std::optional<Activation> activation;      ///< activation of all layers but the last; empty: as in the pattern
  std::optional<Activation> last_activation; ///< activation of the last layer; empty: as in the pattern
  std::uint64_t seed = 1;
};

/// A network with the pattern of another one, biases 0, and weights to begin training with.
///
/// he: the weights of an output with d edges are uniform with mean 0 and variance 2 / (1 + slope^2) / d, where `slope`
/// is that of the activation below zero (0 for ReLU; 1 for identity, sigmoid and tanh). This keeps the mean square of
/// the activations about the same in all layers (He, Zhang, Ren and Sun, "Delving deep into rectifiers", 2015).
///
/// identity: layers with as many inputs as outputs get an edge of weight 1 from each input to the output of the same
/// number, in addition to the edges of the pattern. The other edges of an output, d of them, have weights that are
/// uniform with mean 0 and variance 1 / (d * depth), where `depth` is the number of such layers. Networks of thousands
/// of layers then train (a residual network without blocks: He, Zhang, Ren and Sun, "Deep residual learning for image
/// recognition", 2016). Layers with other shapes get the weights of he.
///
/// The random number of an edge depends on the seed, its layer, output and input only: patterns that share an edge
/// share its number. All weights are exact in float and the same on every platform.
class InitialNetwork final : public NetworkSource {
public:
  /// The pattern must outlive this object. With InitialWeights::identity, reads all its layers here. Throws what the
  /// pattern throws, and UsageError if identity is asked for and no layer has as many inputs as outputs.
  InitialNetwork(NetworkSource const& pattern, InitialRecipe const& recipe);

  std::string name() const override;
  std::size_t num_layers() const override { return pattern_.num_layers(); }
  Layer layer(std::size_t number) const override;

private:
  NetworkSource const& pattern_;
  InitialRecipe recipe_;
  std::size_t depth_ = 0; ///< identity: number of layers with as many inputs as outputs
};

} // namespace varve

#pragma once

#include "core/types.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <string>

namespace varve {

/// Throws InputError if a weight or bias of layer `number` (from 0) rounds to infinity in this precision. The message
/// names `network`, the layer and the value.
void require_representable(Layer const& layer, std::size_t number, Precision precision, std::string const& network);

/// Throws InputError if a value rounds to infinity in this precision. The message names `input`, the sample (from 1)
/// and the value.
void require_representable(SampleBatch const& samples, Precision precision, std::string const& input);

/// A network that checks each layer with require_representable() when it is read. The source must outlive this object.
class RepresentableNetwork final : public NetworkSource {
public:
  RepresentableNetwork(NetworkSource const& source, Precision precision) : source_(source), precision_(precision) {}

  std::string name() const override { return source_.name(); }
  std::size_t num_layers() const override { return source_.num_layers(); }
  Layer layer(std::size_t number) const override;
  void before_layer() const override { source_.before_layer(); }

private:
  NetworkSource const& source_;
  Precision precision_;
};

} // namespace varve

// Hands samples and activations over as Views: they are made, run and read where the execution space has its memory.
#include <varve/kokkos.hpp>
#include <varve/varve.hpp>

#include <Kokkos_Core.hpp>

#include <iostream>

int main(int num_arguments, char** arguments) {
  Kokkos::ScopeGuard const kokkos(num_arguments, arguments);
  using Space = Kokkos::DefaultExecutionSpace;
  Space const space;

  varve::RandomRecipe recipe;
  recipe.widths = {64, 128, 128, 10};
  recipe.degree = 8;
  varve::InferenceOptions options;
  options.backend = varve::backend_of<Space>();
  varve::PreparedNetwork network(varve::random_network(recipe), options);

  Kokkos::View<float**, Space> const samples("samples", 1000, network.num_inputs());
  Kokkos::View<float**, Space> const activations("activations", samples.extent(0), network.num_outputs());
  Kokkos::parallel_for(
      "make samples", Kokkos::MDRangePolicy<Space, Kokkos::Rank<2>>(space, {0, 0}, {1000, 64}),
      KOKKOS_LAMBDA(int sample, int neuron) {
        samples(sample, neuron) = float((sample * 7 + neuron * 3) % 11) / 11.0F;
      });

  auto const result = varve::infer(network, space, samples, activations);

  double sum = 0.0;
  Kokkos::parallel_reduce(
      "add activations", Kokkos::MDRangePolicy<Space, Kokkos::Rank<2>>(space, {0, 0}, {1000, 10}),
      KOKKOS_LAMBDA(int sample, int output, double& part) { part += activations(sample, output); }, sum);
  std::cout << result.live_samples.size() << " live samples, the activations add up to " << sum << '\n';

  auto const values = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), samples);
  std::vector<float> rows;
  for (std::size_t sample = 0; sample < values.extent(0); ++sample)
    for (std::size_t neuron = 0; neuron < values.extent(1); ++neuron) rows.push_back(values(sample, neuron));
  bool const is_same =
      network.infer(varve::Samples::from_dense(rows, 1000, 64)).activation_hash == result.activation_hash;
  std::cout << (is_same ? "the same bits as from arrays\n" : "other bits than from arrays\n");
  return is_same && !result.live_samples.empty() ? 0 : 1;
}

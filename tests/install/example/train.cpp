// Trains a sparse network from memory: 200 samples of two classes, told apart by the half of the inputs that is larger.
#include <varve/varve.hpp>

#include <iostream>

int main() {
  varve::Runtime const runtime;
  auto const samples = varve::random_samples(32, 200, 0.9);
  auto const rows = samples.rows();
  varve::Answers answers;
  for (std::size_t sample = 0; sample < rows.num_rows; ++sample) {
    double difference = 0.0;
    for (auto entry = rows.row_pointers[sample]; entry < rows.row_pointers[sample + 1]; ++entry)
      difference += rows.column_indices[entry] < 16 ? rows.value(entry) : -rows.value(entry);
    answers.labels.push_back(difference > 0.0 ? 0 : 1);
  }

  varve::RandomRecipe pattern;
  pattern.widths = {32, 64, 2};
  pattern.density = 0.3;
  auto const start = varve::initial_network(varve::random_network(pattern), "he", varve::Activation::relu(),
                                            varve::Activation::identity());
  varve::Recipe recipe;
  recipe.optimizer = "adam";
  recipe.rate = 0.01;
  recipe.batch = 20;
  recipe.epochs = 30;
  varve::TrainingCallbacks callbacks;
  callbacks.after_epoch = [](varve::Epoch const& epoch) {
    if (epoch.epoch % 10 == 0)
      std::cout << "epoch " << epoch.epoch << ": loss " << epoch.loss << ", accuracy " << epoch.accuracy << '\n';
    return true;
  };
  auto const trained = varve::train(start, samples, answers, recipe, callbacks);

  varve::PreparedNetwork network(trained.network);
  auto const evaluation = varve::evaluate(network, samples, answers);
  std::cout << "accuracy after training: " << evaluation.accuracy() << '\n';
  return evaluation.accuracy() > 0.9 ? 0 : 1;
}

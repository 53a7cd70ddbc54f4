#include "apps/train_folder.hpp"

#include "core/backend.hpp"
#include "io/json_text.hpp"
#include "io/network_file.hpp"
#include "training/checkpoint.hpp"
#include "training/training_receipt.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::Ended;
using test::joined;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using varve::test::read_bytes;
using varve::test::write_bytes;

/// Nine steps in three epochs, with a receipt of the states after steps 2, 4, 6, 8 and 9 and their checkpoints.
class AuditTraining : public test::TrainFolder<AuditTraining> {
public:
  static void make_files() {
    TrainFolder::make_files();
    make_receipt("a", {"--receipt-states", "checkpoints=" + path("kept")});
  }

protected:
  static void make_receipt(std::string const& name, Words const& options = {}) {
    train(joined({"--receipt", path(name + ".json"), "--receipt-states", "every=2", "--optimizer", "adam"}, options));
  }
  static Ended audit(Words const& options = {}, std::string const& receipt = "a.json") {
    return run_varve(replaced({"audit", path(receipt), "--network", path("d1.safetensors"), "--input",
                               path("train.safetensors"), "--draw", "step=5", "--checkpoints", path("kept")},
                              options));
  }
  static Ended compare(std::string const& left, std::string const& right) {
    return run_varve({"audit", path(left), "--against", path(right)});
  }
  static void expect_difference(Ended const& ended, std::string const& sentence) {
    EXPECT_EQ(ended.exit_code, 1) << ended.out << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("differs   "));
    EXPECT_THAT(ended.out, HasSubstr(sentence));
  }
  static TrainingReceipt receipt_in(std::string const& name) {
    auto const text = read_bytes(path(name));
    return training_receipt_of(parse_json(text, name, text.size()), name);
  }
  /// A file of the receipt after a change; its digest fits.
  static std::string forged(std::function<void(TrainingReceipt&)> const& change) {
    auto receipt = receipt_in("a.json");
    change(receipt);
    write_bytes(path("forged.json"), to_json(receipt));
    return "forged.json";
  }
  /// A folder with the checkpoint after step 4, changed.
  static Words changed_checkpoint(std::function<void(std::vector<Layer>&, OptimizerState&)> const& change) {
    auto checkpoint = read_checkpoint(checkpoint_of_step(path("kept"), 4), [](std::string const&) {});
    auto layers = checkpoint->network.layers();
    change(layers, checkpoint->record.optimizer);
    std::filesystem::remove_all(path("changed"));
    std::filesystem::create_directory(path("changed"));
    write_checkpoint(checkpoint_of_step(path("changed"), 4), {Network(layers), checkpoint->record});
    return {"--checkpoints", path("changed")};
  }
};

TEST_F(AuditTraining, ComputesTheStepsAroundOneAgain) {
  for (auto const backend : compiled_backends()) {
    auto const ended = audit({"--backend", to_string(backend)});
    EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("as in the receipt after step 4"));
    EXPECT_THAT(ended.out, HasSubstr("audited   steps 5 to 6 of 9 on " + to_string(backend)));
  }
  EXPECT_THAT(succeed({"audit", path("a.json"), "--network", path("d1.safetensors"), "--input",
                       path("train.safetensors"), "--draw", "step=9"})
                  .out,
              ::testing::AllOf(HasSubstr("from      the first step"), HasSubstr("step-8.safetensors"),
                               HasSubstr("audited   steps 1 to 9 of 9")));
  EXPECT_THAT(
      succeed({"audit", path("a.json"), "--network", path("d1.safetensors"), "--input", path("train.safetensors")}).out,
      HasSubstr("audited   steps 1 to "));
}

TEST_F(AuditTraining, EqualTrainingsHaveEqualReceipts) {
  for (auto const backend : compiled_backends()) {
    make_receipt("b", {"--backend", to_string(backend), "--tuning", "micro-batch=64"});
    EXPECT_EQ(compare("a.json", "b.json").exit_code, 0) << to_string(backend);
  }
  auto const strip = [](std::string const& name) {
    auto receipt = receipt_in(name);
    receipt.made_by = nullptr;
    return to_json(receipt);
  };
  EXPECT_EQ(strip("a.json"), strip("b.json"));
  Words const resumed = {"--checkpoint", path("c.ckpt.safetensors"), "--rate-schedule", "constant"};
  make_receipt("whole", {"--rate-schedule", "constant"});
  make_receipt("part", joined(resumed, {"--epochs", "1"})); // ends after step 3, which no state is of
  EXPECT_THAT(compare("whole.json", "part.json").out, HasSubstr("epochs: 3 and 1"));
  make_receipt("c", resumed);
  EXPECT_EQ(compare("whole.json", "c.json").exit_code, 0) << compare("whole.json", "c.json").out;
  EXPECT_EQ(strip("whole.json"), strip("c.json"));
}

TEST_F(AuditTraining, FindsWhatWasAlteredByName) {
  expect_difference(audit({}, forged([](auto& receipt) { receipt.states[2].weights[1][0] ^= 1U; })),
                    "it has other weights of layer 1 after step 6 than the steps 5 to 6 give");
  expect_difference(audit({}, forged([](auto& receipt) { receipt.states[2].moments[2][0] ^= 1U; })),
                    "it has other moments of layer 2 after step 6");
  expect_difference(audit({}, forged([](auto& receipt) { receipt.states[2].order[0] ^= 1U; })),
                    "it has other order of the samples after step 6");
  expect_difference(audit({}, forged([](auto& receipt) { receipt.recipe["seed"] = 2; })), "other order of the samples");
  expect_difference(audit({}, forged([](auto& receipt) { receipt.recipe["beta1"] = 0.8; })),
                    "other weights of layer 0");
  expect_difference(audit({}, forged([](auto& receipt) { receipt.recipe["samples"] = 299; })),
                    "another number of samples");
  auto text = read_bytes(path("a.json"));
  auto const place = text.find("\"seed\": 1");
  ASSERT_NE(place, std::string::npos);
  write_bytes(path("altered.json"), text.replace(place, 9, "\"seed\": 2"));
  expect_difference(audit({}, "altered.json"), "its digest is not that of its bound part");
}

TEST_F(AuditTraining, FindsOtherFilesByName) {
  expect_difference(audit({"--network", path("d2.safetensors")}), "d2.safetensors: it is not the network");
  expect_difference(audit({"--input", path("others.safetensors"), "--labels", path("labels.txt")}),
                    "others.safetensors: its samples are not those of the receipt");
  auto labels = read_bytes(path("labels.txt"));
  labels[0] = labels[0] == '0' ? '1' : '0';
  write_bytes(path("changed.txt"), labels);
  expect_difference(audit({"--input", path("samples.safetensors"), "--labels", path("changed.txt")}),
                    "changed.txt: its labels or targets are not those of the receipt");
  expect_difference(audit(changed_checkpoint([](auto& layers, auto&) { layers[2].weights.values[5] *= 2.0; })),
                    "it has other weights of layer 2 than the receipt after step 4");
  expect_difference(audit(changed_checkpoint([](auto&, auto& state) { state.layers[1].bias[1][0] += 1.0; })),
                    "it has other moments of layer 1 than the receipt after step 4");
  EXPECT_EQ(audit(changed_checkpoint([](auto&, auto&) {})).exit_code, 0);
}

TEST_F(AuditTraining, BisectionFindsTheFirstStatesThatDiffer) {
  make_receipt("other", {"--network", path("d2.safetensors")});
  expect_difference(compare("a.json", "other.json"),
                    "the first difference is in the steps 1 to 2: other weights of layer 0");
  std::vector<std::string> const steps = {"1 to 2", "3 to 4", "5 to 6", "7 to 8", "9 to 9"};
  for (std::size_t state = 0; state < 5; ++state) {
    auto const file = forged([&](auto& receipt) {
      for (auto later = state; later < 5; ++later) receipt.states[later].moments[1][0] ^= 1U;
    });
    expect_difference(compare("a.json", file),
                      "the first difference is in the steps " + steps[state] + ": other moments of layer 1");
  }
}

TEST_F(AuditTraining, RefusesWhatCannotBeAudited) {
  test::expect_sentence(audit({"--draw", "step=10"}), 2,
                        {"--draw step is '10', expected random or a step from 1 to 9"});
  test::expect_sentence(audit({"--draw", "step=0"}), 2, {"expected random or a step from 1 to 9"});
  test::expect_sentence(audit({"--backend", "reference"}), 2, {"for receipts of inference"});
  train({"--checkpoint", path("plain.safetensors")});
  expect_failure({"--checkpoint", path("plain.safetensors"), "--receipt", path("no.json")}, 3,
                 "plain.safetensors holds no receipt of the steps so far");
  expect_failure({"--receipt-states", "checkpoints=" + path("kept")}, 2, "--receipt-states requires --receipt");
  expect_failure({"--receipt-states", "every=3"}, 2, "--receipt-states requires --receipt");
  make_receipt("d", {"--checkpoint", path("d.safetensors")});
  expect_failure({"--checkpoint", path("d.safetensors"), "--optimizer", "adam", "--receipt", path("d.json"),
                  "--receipt-states", "every=3"},
                 3, "a state every 2 steps and not 3");
}

} // namespace
} // namespace varve

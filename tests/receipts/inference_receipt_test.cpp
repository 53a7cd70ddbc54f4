#include "receipts/inference_receipt.hpp"

#include "core/error.hpp"
#include "io/files.hpp"
#include "receipts/receipt_members.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using varve::test::read_bytes;
using varve::test::write_bytes;

InferenceReceipt some_receipt() {
  InferenceReceipt receipt;
  receipt.network = sha256("network");
  receipt.precision = "float";
  receipt.edge_order = "balanced";
  receipt.reductions = {"merge_neurons"};
  receipt.first_sample = 4;
  for (char const* const name : {"a", "b", "c"}) receipt.leaves.push_back({sha256(name), sha256("d")});
  receipt.made_by = {{"program", "a test"}};
  receipt.seal();
  return receipt;
}

class Receipts : public ::testing::Test {
protected:
  std::string path(std::string const& name) const { return (folder_ / name).string(); }

  /// A file of the receipt, in which one text is replaced.
  std::string written_with(std::string const& old_text, std::string const& new_text) const {
    write_receipt(path("changed.json"), some_receipt());
    auto text = read_bytes(path("changed.json"));
    auto const place = text.find(old_text);
    EXPECT_NE(place, std::string::npos) << old_text;
    write_bytes(path("changed.json"), text.replace(place, old_text.size(), new_text));
    return path("changed.json");
  }

  varve::test::TemporaryFolder folder_;
};

TEST_F(Receipts, AreReadAsTheyWereWritten) {
  write_receipt(path("receipt.json"), some_receipt());
  auto const read = read_receipt(path("receipt.json"));
  EXPECT_EQ(bound_part(read), bound_part(some_receipt()));
  EXPECT_EQ(read.leaves, some_receipt().leaves);
  EXPECT_EQ(read.digest, some_receipt().digest);
  EXPECT_EQ(read.made_by, some_receipt().made_by);
  EXPECT_THAT(contradictions(read), IsEmpty());
  EXPECT_THAT(differences(read, some_receipt()), IsEmpty());
}

TEST_F(Receipts, ContradictThemselvesWhenOnePartIsAltered) {
  auto const altered = [](auto const& alter) {
    auto receipt = some_receipt();
    alter(receipt);
    return contradictions(receipt);
  };
  std::string const not_bound = "its digest is not that of its bound part";
  EXPECT_THAT(altered([](auto& receipt) { receipt.network = sha256("other"); }), ElementsAre(not_bound));
  EXPECT_THAT(altered([](auto& receipt) { receipt.precision = "double"; }), ElementsAre(not_bound));
  EXPECT_THAT(altered([](auto& receipt) { receipt.leaves[1].input = sha256("x"); }),
              ElementsAre("the digests of its inputs have another root"));
  EXPECT_THAT(altered([](auto& receipt) { receipt.leaves[2].output = sha256("x"); }),
              ElementsAre("the digests of its outputs have another root"));
}

TEST_F(Receipts, AProofHoldsOneSample) {
  auto const proof = proof_of(some_receipt(), 1);
  write_proof(path("proof.json"), proof);
  auto read = proof_of(read_receipt_json(path("proof.json"), {kSampleProof}), "proof");
  EXPECT_EQ(bound_part(read.receipt), bound_part(some_receipt()));
  EXPECT_EQ(read.place, 1U);
  EXPECT_EQ(read.leaves, some_receipt().leaves[1]);
  EXPECT_THAT(contradictions(read), IsEmpty());
  read.leaves.output = sha256("x");
  EXPECT_THAT(contradictions(read), ElementsAre("the path of its output leads to another root"));
  read.input_path[0] = sha256("x");
  read.receipt.precision = "double";
  EXPECT_EQ(contradictions(read).size(), 3U);
  for (auto const& [key, value] : {std::pair("sample", 4), std::pair("sample", 8), std::pair("input_path", 7)}) {
    auto json = read_receipt_json(path("proof.json"), {kSampleProof});
    json[key] = value;
    EXPECT_THROW(proof_of(json, "proof"), InputError) << key;
  }
}

TEST_F(Receipts, DifferencesNameTheFirstSample) {
  auto other = some_receipt();
  other.leaves[1].output = other.leaves[2].output = sha256("x");
  other.seal();
  auto const found = differences(some_receipt(), other);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0], HasSubstr("outputs: "));
  EXPECT_EQ(found[1], "sample 6 is the first with another output");
}

TEST_F(Receipts, OtherFilesAreRefused) {
  auto const expect_refused = [](std::string const& file, std::string const& sentence) {
    try {
      read_receipt(file);
      ADD_FAILURE() << "read " << sentence;
    } catch (InputError const& error) {
      EXPECT_THAT(error.what(), HasSubstr(sentence));
    }
  };
  write_bytes(path("other.json"), "{\"program\": \"varve\"}");
  expect_refused(path("other.json"), "expected a varve inference receipt");
  write_bytes(path("other.json"), "no JSON");
  expect_refused(path("other.json"), "expected a varve inference receipt");
  expect_refused(written_with("\"version\": 1", "\"version\": 2"), "version 2 of receipts");
  expect_refused(written_with("\"first_sample\": 5", "\"first_sample\": 0"), "expected a number from 1 on");
  expect_refused(written_with("\"samples\": 3", "\"samples\": 4"), "expected 4 digests of 64 hexadecimal digits");
  expect_refused(written_with("\"samples\": 3", "\"samples\": 18446744073709551615"), "digests of 64");
  expect_refused(written_with("\"precision\"", "\"recision\""), "no member precision");
  expect_refused(written_with("\"merge_neurons\"", "7"), "expected a list of texts");
  EXPECT_NE(read_receipt(written_with("\"numerics\": 1", "\"numerics\": 4294967297")).numerics, kNumerics);
  auto const digit = to_hex(some_receipt().network);
  expect_refused(written_with(digit, "x" + digit.substr(1)), "expected hexadecimal digits");
}

} // namespace
} // namespace varve

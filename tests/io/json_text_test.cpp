#include "io/files.hpp"
#include "io/json_text.hpp"

#include <cmath>
#include <limits>
#include <string>

namespace varve {
namespace {

using test::expect_holds;
using test::sentence_of;

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonText, FlatTextsAreParsed) {
  EXPECT_EQ(parse_json(R"({"a": [1, 2], "b": "]]}{\"[["})", "x")["b"], "]]}{\"[[");
  EXPECT_FALSE(parse_json(nested(deepest_json), "x").is_discarded());
  EXPECT_FALSE(parse_json('"' + std::string(1000, '[') + '"', "x").is_discarded());
  EXPECT_TRUE(parse_json("no JSON", "x").is_discarded());
  EXPECT_TRUE(parse_json("", "x").is_discarded());
  EXPECT_TRUE(parse_json(std::string("{}\0", 3), "x").is_discarded());
}

TEST(JsonText, DeepAndLongTextsAreRefused) {
  for (std::size_t const depth : {deepest_json + 1, std::size_t{30000}}) {
    auto const sentence = sentence_of<InputError>([&] { parse_json(nested(depth), "net.safetensors: layer 3"); });
    expect_holds(sentence, "net.safetensors: layer 3: found JSON that nests " + std::to_string(depth) + " deep");
  }
  expect_holds(sentence_of<InputError>([] { parse_json(nested(100000), "x"); }), "more than 65536 bytes");
  expect_holds(sentence_of<InputError>([] { parse_json(std::string(longest_json + 1, ' '), "x"); }), "more than 65536");
  EXPECT_NO_THROW(parse_json("1" + std::string(longest_json - 1, ' '), "x"));
}

TEST(JsonText, KeysThatAnObjectHasTwiceAreRefused) {
  EXPECT_EQ(sentence_of<InputError>([] { parse_json(R"({"a": 1, "b": {"c": [{}]}, "a": 2})", "model.safetensors"); }),
            "model.safetensors: found the JSON key \"a\" twice in one object, expected it once");
  expect_holds(sentence_of<InputError>([] { parse_json(R"([{"b": {"c": 1, "c": 1}}])", "x"); }), "the JSON key \"c\"");
  EXPECT_EQ(parse_json(R"({"a": {"a": 1}, "b": [{"a": 2}, {"a": 3}]})", "x")["b"][1]["a"], 3);
  EXPECT_TRUE(parse_json(R"({"a": 1, "a)", "x").is_discarded());
}

TEST(JsonText, TextThatIsNoUtf8IsWrittenAsJson) {
  nlohmann::ordered_json const json = {{"name", "net\xff.safetensors"}, {"line", "a\nb"}};
  auto const text = json_text(json);
  EXPECT_EQ(text, "{\"name\":\"net\xef\xbf\xbd.safetensors\",\"line\":\"a\\nb\"}");
  EXPECT_FALSE(nlohmann::ordered_json::parse(text, nullptr, false).is_discarded());
}

TEST(JsonText, NumbersThatAreNotFiniteAreSpelledOutAndReadAgain) {
  double const infinity = std::numeric_limits<double>::infinity();
  nlohmann::ordered_json const json = {{"loss", infinity}, {"list", {1.5, -infinity, {{"rate", std::nan("")}}}}};
  auto const text = json_text(json);
  EXPECT_EQ(text, R"({"loss":"Infinity","list":[1.5,"-Infinity",{"rate":"NaN"}]})");
  auto const read = parse_json(text, "x");
  EXPECT_EQ(real_of(read["loss"]), infinity);
  EXPECT_EQ(real_of(read["list"][0]), 1.5);
  EXPECT_EQ(real_of(read["list"][1]), -infinity);
  EXPECT_TRUE(std::isnan(real_of(read["list"][2]["rate"])));
  EXPECT_EQ(real_of(parse_json("3", "x")), 3.0);
  for (std::string const other : {"null", R"("infinity")", R"("1")", "[1]", "true"})
    EXPECT_THROW(real_of(parse_json(other, "x")), nlohmann::json::type_error) << other;
}

} // namespace
} // namespace varve

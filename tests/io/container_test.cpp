#include "io/container.hpp"

#include "io/container_edit.hpp"
#include "io/files.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using container::NumberType;
using test::ContainerEdit;
using test::ContainerParts;
using test::joined;
using test::Json;
using test::read_bytes;
using test::sentence_about;
using test::TemporaryFolder;
using test::write_bytes;

container::Array const& array_of(container::File& file, std::string const& name) {
  return file.array(
      name, {NumberType::u8, NumberType::u16, NumberType::u32, NumberType::u64, NumberType::f32, NumberType::f64});
}

template <class Number>
std::vector<Number> some_numbers(std::size_t count) {
  std::vector<Number> numbers(count);
  for (std::size_t place = 0; place < count; ++place) numbers[place] = static_cast<Number>(7 * place + place / 256);
  if (count > 2) numbers[2] = std::numeric_limits<Number>::max();
  return numbers;
}

template <class To, class From>
std::vector<To> widened(std::vector<From> const& numbers) {
  return {numbers.begin(), numbers.end()};
}

/// A file of lists of these numbers.
std::filesystem::path write_lists(std::filesystem::path const& path, auto const&... lists) {
  container::Writer writer(path, sizeof...(lists), 100);
  std::size_t number = 0;
  (writer.add("list." + std::to_string(number++), lists), ...);
  writer.commit({{"kind", "test"}, {"version", 1}});
  return path;
}

TEST(Container, EveryTypeComesBackInItsOwnAndInWiderOnes) {
  TemporaryFolder const folder;
  auto const bytes = some_numbers<char>(3);
  auto const shorts = some_numbers<std::uint16_t>(5);
  auto const words = some_numbers<std::uint32_t>(7);
  auto const longs = some_numbers<std::uint64_t>(9);
  auto const floats = some_numbers<float>(11);
  auto const doubles = some_numbers<double>(13);
  container::File file(
      write_lists(folder / "x", bytes, shorts, words, longs, bytes, floats, doubles, std::vector<double>()));
  auto const read = [&]<class Number>(int number, Number) {
    return file.read_all<Number>(array_of(file, "list." + std::to_string(number)));
  };
  EXPECT_EQ(read(0, char{}), bytes);
  EXPECT_EQ(read(1, std::uint16_t{}), shorts);
  EXPECT_EQ(read(1, std::uint32_t{}), widened<std::uint32_t>(shorts));
  EXPECT_EQ(read(1, std::uint64_t{}), widened<std::uint64_t>(shorts));
  EXPECT_EQ(read(2, std::uint32_t{}), words);
  EXPECT_EQ(read(2, std::uint64_t{}), widened<std::uint64_t>(words));
  EXPECT_EQ(read(3, std::uint64_t{}), longs);
  EXPECT_EQ(read(5, float{}), floats);
  EXPECT_EQ(read(5, double{}), widened<double>(floats));
  EXPECT_EQ(read(6, double{}), doubles);
  EXPECT_TRUE(read(7, double{}).empty());
  EXPECT_THROW(read(3, std::uint32_t{}), std::logic_error);
  EXPECT_THROW(read(6, float{}), std::logic_error);
  EXPECT_THROW(read(2, double{}), std::logic_error);
  file.check_all();
}

TEST(Container, ArraysLieAtMultiplesOfTheirNumbersWithoutGaps) {
  TemporaryFolder const folder;
  auto const bytes = read_bytes(write_lists(folder / "x", some_numbers<char>(3), some_numbers<double>(2),
                                            some_numbers<char>(1), some_numbers<std::uint16_t>(1)));
  auto const parts = ContainerParts::of(bytes);
  EXPECT_EQ((bytes.size() - parts.arrays.size()) % 8, 0U);
  std::vector<std::pair<std::size_t, std::size_t>> places;
  std::size_t num_padded = 0;
  for (auto const& [name, array] : parts.header.items()) {
    if (name == "__metadata__") continue;
    places.emplace_back(array["data_offsets"][0], array["data_offsets"][1]);
    std::size_t const size = array["dtype"] == "F64" ? 8 : array["dtype"] == "U16" ? 2 : 1;
    EXPECT_EQ(places.back().first % size, 0U) << name;
    if (!name.starts_with("padding.")) continue;
    EXPECT_EQ(parts.bytes_of(array).find_first_not_of('\0'), std::string::npos);
    num_padded += parts.bytes_of(array).size();
  }
  EXPECT_EQ(num_padded, 5U + 1U);
  std::ranges::sort(places);
  std::size_t next = 0;
  for (auto const& [begin, end] : places) {
    EXPECT_EQ(begin, next);
    next = end;
  }
  EXPECT_EQ(next, parts.arrays.size());
  EXPECT_EQ(read_bytes(write_lists(folder / "y", some_numbers<char>(3), some_numbers<double>(2), some_numbers<char>(1),
                                   some_numbers<std::uint16_t>(1))),
            bytes);
}

TEST(Container, TheIdentityIsThatOfTheDescriptionAndOfAllPieces) {
  TemporaryFolder const folder;
  auto const path = write_lists(folder / "x", some_numbers<std::uint32_t>(50000), some_numbers<char>(5));
  auto parts = ContainerParts::of(read_bytes(path));
  auto const expected = parts.header;
  parts.hash();
  EXPECT_EQ(parts.header["__metadata__"], expected["__metadata__"]);
  EXPECT_EQ(parts.header["sha256"], expected["sha256"]);
  EXPECT_EQ(expected["sha256"]["shape"], Json({4 + 1, 32})); // 200000 bytes and 5
  EXPECT_EQ(container::File(path).identity(), expected["__metadata__"]["varve.sha256"].get<std::string>());
  EXPECT_TRUE(container::is_container(path));
}

TEST(Container, PartsAreReadWhereverPiecesBegin) {
  TemporaryFolder const folder;
  for (std::size_t const size : {1U, 65535U, 65536U, 65537U, 131072U, 16 * 65536U + 3U}) {
    auto const bytes = some_numbers<char>(size);
    auto const words = some_numbers<std::uint32_t>(size / 2);
    container::File file(write_lists(folder / "x", bytes, words));
    auto const expect_part = [&]<class Number>(std::string const& name, auto const& numbers, Number, std::size_t first,
                                               std::size_t count) {
      std::vector<Number> part(count);
      file.read(array_of(file, name), first, std::span(part));
      EXPECT_TRUE(std::equal(part.begin(), part.end(), numbers.begin() + static_cast<std::ptrdiff_t>(first)))
          << name << ": " << count << " from " << first << " on, of " << numbers.size();
    };
    auto const expect_parts = [&](std::string const& name, auto const& numbers, auto number) {
      auto const all = numbers.size();
      for (std::size_t const first : {std::size_t{0}, all / 3, std::size_t{16383}, std::size_t{65536}, all}) {
        for (std::size_t const count : {std::size_t{1}, std::size_t{3}, std::size_t{65536}, all}) {
          if (first > all) continue;
          expect_part(name, numbers, number, first, std::min(count, all - first));
        }
      }
    };
    expect_parts("list.0", bytes, char{});
    expect_parts("list.1", words, std::uint32_t{});
    expect_parts("list.1", words, std::uint64_t{});
    EXPECT_THROW(expect_part("list.0", bytes, char{}, size, 1), std::logic_error);
  }
}

TEST(Container, EachPieceIsCheckedWhenItIsRead) {
  TemporaryFolder const folder;
  auto const path = write_lists(folder / "x", some_numbers<std::uint32_t>(50000));
  auto bytes = read_bytes(path);
  auto const begin = bytes.size() - ContainerParts::of(bytes).arrays.size();
  bytes[begin + 2 * 65536] ^= 1; // the first byte of the third piece
  write_bytes(path, bytes);
  container::File file(path);
  auto const& array = array_of(file, "list.0");
  std::vector<std::uint32_t> numbers(50000);
  EXPECT_NO_THROW(file.read(array, 0, std::span(numbers).first(32768)));
  auto const sentence = ": list.0: found bytes from 131072 on whose SHA-256 is not what the file says, expected the "
                        "right one; the file is damaged";
  EXPECT_EQ(sentence_about(path, [&] { file.read(array, 40000, std::span(numbers).first(1)); }), sentence);
  EXPECT_EQ(sentence_about(path, [&] { file.read_all<std::uint64_t>(array); }), sentence);
  EXPECT_EQ(sentence_about(path, [&] { file.check_all(); }), sentence);
}

TEST(Container, ListsThatGrowGiveTheSameBytes) {
  TemporaryFolder const folder;
  auto const numbers = some_numbers<std::uint32_t>(700'000); // more than the buffer holds
  auto const whole = read_bytes(write_lists(folder / "x", numbers));
  for (std::size_t const size : {1000U, 65537U, 700000U}) {
    container::Writer writer(folder / "y", 1, 100);
    container::GrowingBytes bytes(writer.folder(), writer.path());
    for (std::size_t first = 0; first < numbers.size(); first += size) {
      auto const part = std::span(numbers).subspan(first, std::min(size, numbers.size() - first));
      bytes.append({reinterpret_cast<char const*>(part.data()), part.size_bytes()});
    }
    writer.add("list.0", NumberType::u32, bytes);
    writer.commit({{"kind", "test"}, {"version", 1}});
    EXPECT_TRUE(read_bytes(folder / "y") == whole) << size;
  }
}

/// Two arrays, of 24 and 4 bytes.
ContainerEdit small() {
  ContainerEdit file;
  file.description = {{"kind", "test"}, {"version", 1}};
  file.set("x", std::vector<float>{1, 2, 3, 4, 5, 6});
  file.arrays["x"].shape = {2, 3};
  file.set("y", std::vector<char>{1, 2, 3, 4});
  return file;
}

/// What is wrong with a file of these bytes.
std::string wrong_with(std::string const& bytes) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "x", bytes);
  return sentence_about(path, [&] { container::File{path}; });
}

TEST(ContainerHeader, ItsLengthIsThatOfJson) {
  TemporaryFolder const folder;
  auto const bytes = small().parts().bytes();
  EXPECT_NO_THROW(container::File(write_bytes(folder / "x", bytes)));
  std::string const expected = ", expected a safetensors file of Varve";
  EXPECT_EQ(wrong_with(""), ": found no header of 0 bytes in a file of 0" + expected);
  EXPECT_EQ(wrong_with("12345678"), ": found no header of 4050765991979987505 bytes in a file of 8" + expected);
  EXPECT_EQ(wrong_with(joined("", "")), ": found no header of 0 bytes in a file of 8" + expected);
  auto longer = bytes;
  longer[3] = 5;
  EXPECT_EQ(wrong_with(longer).find(": found no header of"), 0U);
  auto const path = write_bytes(folder / "long", std::string("\1\xe1\xf5\5\0\0\0\0{", 9));
  std::filesystem::resize_file(path, 200'000'000);
  EXPECT_EQ(sentence_about(path, [&] { container::File{path}; }),
            ": found no header of 100000001 bytes in a file of 200000000" + expected);
  auto const header = small().parts().header.dump();
  for (std::string const& text : {std::string("  "), header.substr(0, header.size() - 1), header + "x", header + header,
                                  "/**/" + header, header.substr(0, header.size() - 1) + ",}",
                                  std::string("{\"\xff\":{}}"), header + '\0', header + '\0' + header})
    EXPECT_NE(wrong_with(joined(text, "")).find(" of its header, expected "), std::string::npos) << text;
}

TEST(ContainerHeader, OtherJsonIsRefused) {
  auto const x = [](std::string const& members) {
    return wrong_with(joined(R"({"x":{)" + members + "}}", "12345678"));
  };
  std::string const type = R"("dtype":"U8",)";
  std::string const shape = R"("shape":[2,4],)";
  std::string const places = R"("data_offsets":[0,8])";
  auto const begin = std::string(": header: \"x\": found ");
  EXPECT_EQ(x(type + shape + places),
            ": found other metadata, expected \"varve\" and \"varve.sha256\" alone, as in the "
            "files of Varve; varve-convert, of the Python package, takes files of other programs");
  EXPECT_EQ(x(type + shape + places + R"(,"strides":[4,1])"),
            begin + "the key \"strides\", expected dtype, shape and data_offsets");
  EXPECT_EQ(x(type + shape + places + "," + places), begin + "the key \"data_offsets\" twice, expected once");
  EXPECT_EQ(x(R"("dtype":"I32",)" + shape + places),
            begin + "the type \"I32\", expected U8, U16, U32, U64, F32 or F64");
  EXPECT_EQ(x(R"("dtype":"u8",)" + shape + places), begin + "the type \"u8\", expected U8, U16, U32, U64, F32 or F64");
  EXPECT_EQ(x(shape + places), begin + "the type \"\", expected U8, U16, U32, U64, F32 or F64");
  EXPECT_EQ(x(type + places), begin + "something missing, expected dtype, shape and two data_offsets");
  EXPECT_EQ(x(type + R"("shape":[2,4])"), begin + "something missing, expected dtype, shape and two data_offsets");
  EXPECT_EQ(x(type + shape + R"("data_offsets":[0,8,8])"),
            begin + "something missing, expected dtype, shape and two data_offsets");
  EXPECT_EQ(x(type + R"("shape":[1,1,1,1,1,1,1,1,8],)" + places), begin + "more numbers, expected at most 8");
  EXPECT_EQ(x(type + R"("shape":[1,1,1,1,1,1,1,8],)" + places).find(": found other metadata"), 0U);
  EXPECT_EQ(x(type + R"("shape":[],"data_offsets":[0,1])"), x(type + R"("shape":[1],"data_offsets":[0,1])"));
  for (std::string const number : {"-8", "8.0", "1e1", "\"8\"", "null", "true", "[8]", "18446744073709551616"}) {
    EXPECT_EQ(x(type + R"("shape":[)" + number + "]," + places),
              begin + "something else for \"shape\", expected what safetensors has there");
    EXPECT_EQ(x(type + shape + R"("data_offsets":[0,)" + number + "]"),
              begin + "something else for \"data_offsets\", expected what safetensors has there");
  }
  for (std::string const other : {R"("shape":8,)", R"("shape":"8",)", R"("shape":null,)"})
    EXPECT_EQ(x(type + other + places).find(begin + "something else for \"shape\""), 0U) << other;
  for (std::string const other : {R"("dtype":8,)", R"("dtype":["U8"],)", R"("dtype":false,)"})
    EXPECT_EQ(x(other + shape + places).find(begin + "something else for \"dtype\""), 0U) << other;
  for (std::string const text :
       {"[]", "88", "null", R"("x")", R"({"x":[]})", R"({"x":8})", R"({"x":"y"})", R"({"__metadata__":[]})",
        R"({"__metadata__":{"varve":8}})", R"({"__metadata__":{"varve":["x"]}})"})
    EXPECT_NE(wrong_with(joined(text, "")).find("something else for"), std::string::npos) << text;
  for (std::string const text :
       {R"({"x":{"shape":{}}})", R"({"x":{"shape":[{}]}})", R"({"__metadata__":{"varve":{}}})"})
    EXPECT_NE(wrong_with(joined(text, "")).find("found an object within an object"), std::string::npos) << text;
}

TEST(ContainerHeader, DeepNestingEndsTheReading) {
  std::string deep;
  for (int level = 0; level < 1'000'000; ++level) deep += "{\"a\":";
  EXPECT_NE(wrong_with(joined(deep, "")).find("the key \"a\""), std::string::npos);
  EXPECT_NE(wrong_with(joined(std::string(5'000'000, '['), "")).find("something else"), std::string::npos);
}

TEST(ContainerHeader, NothingIsSaidTwice) {
  auto const header = small().parts().header.dump();
  auto const arrays = small().parts().arrays;
  auto const y = R"(,"y":)" + small().parts().header["y"].dump() + "}";
  auto const again = [&](std::string const& text) {
    return wrong_with(joined(header.substr(0, header.size() - 1) + text, arrays));
  };
  EXPECT_EQ(again(y), ": header: \"y\": found it twice, expected once");
  EXPECT_EQ(again(R"(,"__metadata__":{}})"), ": header: \"__metadata__\": found it twice, expected once");
  EXPECT_EQ(wrong_with(joined(R"({"__metadata__":{"varve":"","varve":""}})", "")),
            ": header: \"__metadata__\": found the key \"varve\" twice, expected once");
}

TEST(ContainerHeader, ArraysFillTheFile) {
  auto const with = [](auto const& change) {
    auto parts = small().parts();
    change(parts.header, parts.arrays);
    return wrong_with(parts.bytes());
  };
  auto const placed = [&](char const* name, std::uint64_t begin, std::uint64_t end) {
    return with([&](Json& header, auto&) { header[name]["data_offsets"] = {begin, end}; });
  };
  EXPECT_EQ(placed("y", 20, 24), ": found the array \"y\" at byte 20, expected 24, where the one before ends");
  EXPECT_EQ(placed("y", 0, 4), ": found the array \"x\" at byte 0, expected 4, where the one before ends");
  EXPECT_EQ(placed("y", 25, 29), ": found the array \"y\" at byte 25, expected 24, where the one before ends");
  EXPECT_EQ(placed("y", 1024, 1028), ": found the array \"sha256\" at byte 28, expected 24, where the one before ends");
  EXPECT_EQ(placed("y", std::uint64_t{1} << 40, (std::uint64_t{1} << 40) + 4),
            ": found the array \"sha256\" at byte 28, expected 24, where the one before ends");
  EXPECT_EQ(placed("y", 28, 24), ": header: \"y\": found the bytes 28 to 24, expected 4 of them");
  EXPECT_EQ(placed("y", 24, 29), ": header: \"y\": found the bytes 24 to 29, expected 4 of them");
  EXPECT_EQ(placed("x", 0, 23), ": header: \"x\": found the bytes 0 to 23, expected 24 of them");
  EXPECT_EQ(with([](Json&, std::string& arrays) { arrays += '\0'; }),
            ": found 93 bytes of arrays, expected 92 by the header");
  EXPECT_EQ(with([](Json&, std::string& arrays) { arrays.pop_back(); }),
            ": found 91 bytes of arrays, expected 92 by the header");
  auto const shaped = [&](std::vector<std::uint64_t> const& shape) {
    return with([&](Json& header, auto&) { header["x"]["shape"] = shape; });
  };
  EXPECT_EQ(shaped({7}), ": header: \"x\": found the bytes 0 to 24, expected 28 of them");
  EXPECT_EQ(shaped({}), ": header: \"x\": found the bytes 0 to 24, expected 4 of them");
  EXPECT_EQ(shaped(std::vector<std::uint64_t>(8, std::uint64_t{1} << 32)),
            ": header: \"x\": found the bytes 0 to 24, expected 18446744073709551615 of them");
  EXPECT_EQ(shaped({std::uint64_t{1} << 62, 6}),
            ": header: \"x\": found the bytes 0 to 24, expected 18446744073709551615 of them"); // 24 in 64 bits
}

TEST(ContainerHeader, HashesFitTheArraysAndTheDescription) {
  auto const with = [](auto const& change) {
    auto parts = small().parts();
    change(parts.header, parts.arrays);
    return wrong_with(parts.bytes());
  };
  EXPECT_EQ(with([](Json& header, std::string& arrays) {
              header.erase("sha256");
              arrays.resize(28);
            }),
            " has no array \"sha256\"");
  EXPECT_EQ(with([](Json& header, auto&) { header["sha256"]["shape"] = {64}; }),
            ": found the shape 64 of \"sha256\", expected 2 x 32");
  EXPECT_EQ(with([](Json& header, auto&) {
              header["sha256"]["shape"] = {2, 4};
              header["sha256"]["dtype"] = "F64";
            }),
            ": sha256: found numbers of the type F64, expected U8");
  EXPECT_EQ(with([](Json& header, std::string& arrays) {
              header["sha256"]["shape"] = {3, 32};
              header["sha256"]["data_offsets"] = {28, 124};
              arrays.resize(124);
            }),
            ": found the shape 3 x 32 of \"sha256\", expected 2 x 32");
  auto const metadata = [&](char const* key, Json const& value) {
    return with([&](Json& header, auto&) { header["__metadata__"][key] = value; });
  };
  std::string const damaged = "; the file is damaged";
  auto const root = small().parts().header["__metadata__"]["varve.sha256"].get<std::string>();
  auto upper = root;
  std::ranges::transform(upper, upper.begin(), [](unsigned char letter) { return std::toupper(letter); });
  EXPECT_EQ(metadata("varve.sha256", upper), ": found the SHA-256 " + root + " of its description, expected \"" +
                                                 upper.substr(0, 40) + "...\"" + damaged);
  EXPECT_EQ(metadata("varve.sha256", ""),
            ": found the SHA-256 " + root + " of its description, expected \"\"" + damaged);
  EXPECT_EQ(metadata("varve", R"({"kind": "test", "version": 1})").find(": found the SHA-256 "), 0U);
  EXPECT_EQ(metadata("format", "pt").find(": found other metadata"), 0U);
  std::string many = R"({"__metadata__":{"":"")";
  for (int number = 0; number < 100'000; ++number) many += ",\"" + std::to_string(number) + "\":\"\"";
  EXPECT_EQ(wrong_with(joined(many + "}}", "")).find(": found other metadata"), 0U);
  for (char const* const key : {"varve", "varve.sha256"})
    EXPECT_EQ(with([&](Json& header, auto&) { header["__metadata__"].erase(key); }).find(": found other metadata"), 0U);
}

TEST(ContainerHeader, TheDescriptionIsAnObjectOfKnownKeys) {
  auto const described = [](std::string const& text) {
    auto parts = small().parts();
    parts.header["__metadata__"]["varve"] = text;
    parts.hash();
    return wrong_with(parts.bytes());
  };
  for (std::string const& text : {std::string(), std::string("x"), std::string("[]"), std::string("{} {}"),
                                  std::string(R"({"kind":1e999})"), std::string("{}\0x", 4)})
    EXPECT_EQ(described(text), ": found no JSON object in \"varve\", expected a description") << text;
  EXPECT_EQ(described(R"({"kind":"a","kind":"b"})"),
            ": found the JSON key \"kind\" twice in one object, expected it once");
  EXPECT_EQ(described(std::string(33, '[')), ": found JSON that nests 33 deep, expected no more than 32");
  std::string list = "[0";
  for (int number = 0; number < (1 << 19); ++number) list += ",0";
  EXPECT_EQ(described(list + "]"), ": found JSON of more than 524288 values, expected no more");
  std::string object = "{\"\":0";
  for (int number = 0; number < 1024; ++number) object += ",\"" + std::to_string(number) + "\":0";
  EXPECT_EQ(described(object + "}"), ": found a JSON object of more than 1024 keys, expected no more");

  TemporaryFolder const folder;
  container::File const file(small().write(folder / "x"));
  EXPECT_NO_THROW(file.require_kind("test", {"more"}));
  EXPECT_EQ(sentence_about(file.path(), [&] { file.require_kind("samples", {}); }),
            ": found the kind \"test\", expected \"samples\"");
  EXPECT_EQ(sentence_about(file.path(), [&] { file.require_no_others(); }),
            ": found the array \"x\", expected those that its description names");
}

} // namespace
} // namespace varve

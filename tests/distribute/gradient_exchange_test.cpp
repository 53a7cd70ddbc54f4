#include "distribute/ranks.hpp"

#include "distribute/communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

using Numbers = std::vector<std::uint64_t>;

RankBytes piece(std::size_t rank, Numbers& numbers) {
  return {rank, reinterpret_cast<std::byte*>(numbers.data()), numbers.size() * sizeof(std::uint64_t)};
}

void wait_for(RankExchange& exchange, int number) {
  while (!exchange.is_over(number)) std::this_thread::yield();
}

TEST(Transfers, BringsPiecesInOrderWhateverTransferIsStartedFirst) {
  auto const exchange = exchange_between_ranks();
  std::size_t const me = exchange->rank();
  std::size_t const size = exchange->num_ranks();
  std::vector<Numbers> sent;
  for (std::uint64_t i = 0; i < 4; ++i) sent.push_back(Numbers(1000 + 10 * i, 100 * me + i));
  std::vector<std::vector<Numbers>> received(2);
  std::vector<std::vector<RankBytes>> out(2);
  std::vector<std::vector<RankBytes>> in(2);
  for (std::size_t transfer = 0; transfer < 2; ++transfer) {
    received[transfer].resize(2 * size);
    for (std::size_t other = 0; other < size; ++other) {
      for (std::size_t i = 0; i < 2; ++i) {
        received[transfer][2 * other + i].resize(1000 + 10 * (2 * transfer + i));
        if (other == me) continue;
        out[transfer].push_back(piece(other, sent[2 * transfer + i]));
        in[transfer].push_back(piece(other, received[transfer][2 * other + i]));
      }
    }
  }
  int const first = me % 2 == 0 ? 0 : 1; // the ranks start the transfers in different orders
  exchange->start(first, out[static_cast<std::size_t>(first)], in[static_cast<std::size_t>(first)]);
  exchange->start(1 - first, out[static_cast<std::size_t>(1 - first)], in[static_cast<std::size_t>(1 - first)]);
  wait_for(*exchange, 0);
  wait_for(*exchange, 1);
  for (std::size_t transfer = 0; transfer < 2; ++transfer) {
    for (std::size_t other = 0; other < size; ++other) {
      if (other == me) continue;
      for (std::size_t i = 0; i < 2; ++i)
        EXPECT_THAT(received[transfer][2 * other + i], testing::Each(100 * other + 2 * transfer + i));
    }
  }
  exchange->start(0, {}, {}); // nothing to do is over at once
  EXPECT_TRUE(exchange->is_over(0));
}

TEST(Transfers, GathersListsOfDifferentLengths) {
  auto const exchange = exchange_between_ranks();
  std::vector<double> expected;
  for (std::size_t rank = 0; rank < exchange->num_ranks(); ++rank)
    expected.insert(expected.end(), rank, static_cast<double>(rank) + 0.5);
  std::vector<double> const mine(exchange->rank(), static_cast<double>(exchange->rank()) + 0.5);
  EXPECT_EQ(exchange->gather(mine), expected);
  std::vector<std::string> texts; // with bytes that are no text, and an empty one
  for (std::size_t rank = 0; rank < exchange->num_ranks(); ++rank)
    texts.emplace_back(3 * rank, static_cast<char>(rank));
  EXPECT_EQ(exchange->gather(texts[exchange->rank()]), texts);
  auto const on_root = exchange->gather_on_root(mine);
  EXPECT_EQ(on_root, exchange->rank() == 0 ? expected : std::vector<double>());
}

} // namespace
} // namespace varve

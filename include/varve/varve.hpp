#pragma once

/// \file
/// Everything of Varve that does not need the headers of Kokkos. (varve/kokkos.hpp takes Views.)

#include <varve/error.hpp>
#include <varve/evaluate.hpp>
#include <varve/generate.hpp>
#include <varve/inference.hpp>
#include <varve/io.hpp>
#include <varve/matrix.hpp>
#include <varve/network.hpp>
#include <varve/product.hpp>
#include <varve/runtime.hpp>
#include <varve/samples.hpp>
#include <varve/train.hpp>
#include <varve/types.hpp>
#include <varve/verify.hpp>
#include <varve/version.hpp>

#pragma once

#include <nanobind/nanobind.h>

/// Each function adds one part to the module varve._core.
namespace varve::python {

void add_errors(nanobind::module_& module);
void add_process(nanobind::module_& module);
void add_rows(nanobind::module_& module);
void add_networks(nanobind::module_& module);
void add_files(nanobind::module_& module);
void add_generators(nanobind::module_& module);
void add_engine(nanobind::module_& module);
void add_training(nanobind::module_& module);
void add_judgement(nanobind::module_& module);
void add_products(nanobind::module_& module);
void add_sparse_linear(nanobind::module_& module);

} // namespace varve::python

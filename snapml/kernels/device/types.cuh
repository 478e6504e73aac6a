// The types that a program is compiled for; program.py gives the macros.
#pragma once

#include "snapml/config.hpp"

namespace snapml::kernels {

using Real = SNAPML_REAL;  // of the data, the labels and the weights
// Of the coefficients, and of products added up within one row or one tile of rows. What is added
// over more rows than that is double.
using Sum = SNAPML_SUM;

}  // namespace snapml::kernels

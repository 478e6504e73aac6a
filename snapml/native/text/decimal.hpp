// Decimal numbers rounded to the nearest double, whatever the locale.
#pragma once

#include <charconv>
#include <system_error>
#ifndef __cpp_lib_to_chars  // libc++ reads no doubles before its version 20
#include <locale.h>
#include <stdlib.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include <cmath>
#include <string>
#endif

namespace snapml::native {

// Reads all of [first, last), "12.5e-7" without a sign; false where it is none or is too large.
// What is below the smallest number, as `is_large` tells, is 0.
inline bool read_decimal(const char* first, const char* last, [[maybe_unused]] bool is_large,
                         double& value) {
#ifdef __cpp_lib_to_chars
  const auto [stop, status] = std::from_chars(first, last, value);
  if (status != std::errc::result_out_of_range) return status == std::errc() && stop == last;
  value = 0;
  return !is_large;
#else
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  const std::string text(first, last);
  char* stop = nullptr;
  value = strtod_l(text.c_str(), &stop, plain);
  return stop == text.c_str() + text.size() && std::isfinite(value);
#endif
}

}  // namespace snapml::native

// Memory that was given back to the allocator, given back to the system.
#pragma once

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace snapml::native {

// Between two steps of which each needs much: glibc keeps what threads have freed, apart for each
// of them, and the next step would take as much again. Elsewhere it is left to the allocator.
inline void return_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace snapml::native

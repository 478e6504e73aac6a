// Loops that run through wider registers where the processor has them: the loader picks the clone.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__)
#define SNAPML_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
// With all that they call inside of them: a formula left outside is evaluated row by row.
#define SNAPML_FLAT_CLONES SNAPML_CLONES __attribute__((flatten))
#else
#define SNAPML_CLONES
#define SNAPML_FLAT_CLONES
#endif

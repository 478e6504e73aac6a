// Trees that grow on rows of bins in a byte.
#include "trees/bindings/tree_growing.hpp"

namespace snapml::native {

void bind_byte_trees(nb::module_& m);
void bind_byte_trees(nb::module_& m) { bind_growing<trees::BinnedRows>(m); }

}  // namespace snapml::native

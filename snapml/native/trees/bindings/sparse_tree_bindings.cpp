// Trees that grow on sparse columns.
#include "trees/bindings/tree_growing.hpp"

namespace snapml::native {

void bind_sparse_trees(nb::module_& m);
void bind_sparse_trees(nb::module_& m) { bind_growing<trees::BinnedColumns>(m); }

}  // namespace snapml::native
